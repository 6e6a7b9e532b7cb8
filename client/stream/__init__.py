"""A run as a stream of frames: its events, the answer that a model writes, the calls' progress."""
