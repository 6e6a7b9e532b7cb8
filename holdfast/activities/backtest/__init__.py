"""The activities of a backtest, which answer from a recorded run."""
