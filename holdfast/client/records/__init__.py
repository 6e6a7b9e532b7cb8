"""What is read of a run's records: its cost, and its conversation for a run that continues it."""
