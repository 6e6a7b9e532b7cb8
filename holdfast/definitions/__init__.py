"""Agents and tools written in Python: typed views of what their files state."""
