"""Messages that enter a run, their visibility to calls, and summaries."""
