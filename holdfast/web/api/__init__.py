"""The HTTP API of runs, and its OpenAPI description."""
