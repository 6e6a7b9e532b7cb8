"""The interceptors of every activity of a worker: results, secrets, heartbeats, spans."""
