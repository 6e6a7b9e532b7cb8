"""The company's activities."""
