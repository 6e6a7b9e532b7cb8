"""Questions to the person at the terminal, and where their answers come from."""
