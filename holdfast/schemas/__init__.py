"""Data models, durable names and the published JSON Schemas, without the logic of runs."""
