"""What is read of the records of a run: its cost, and its evidence."""
