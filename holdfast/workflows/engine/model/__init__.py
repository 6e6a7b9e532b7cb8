"""Requests to a model, and its parsed answers."""
