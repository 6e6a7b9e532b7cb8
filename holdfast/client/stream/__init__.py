"""A run as a stream of frames: its events, the model's partial answer, the calls' progress."""
