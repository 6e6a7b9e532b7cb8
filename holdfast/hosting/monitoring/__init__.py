"""What an operator monitors of a worker: probes and telemetry."""
