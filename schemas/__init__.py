"""Data models, durable names and the published JSON Schemas. No logic of runs."""
