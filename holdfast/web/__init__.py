"""The inbox, the HTTP API of runs, and the codec endpoint."""
