"""A recorded run, and what it answers in a backtest."""
