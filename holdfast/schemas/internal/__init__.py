"""Data models that only the engine and its activities exchange."""
