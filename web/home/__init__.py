"""The home page: figures of all runs, each with a link to its list."""
