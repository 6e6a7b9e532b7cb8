"""Send traces, metrics and logs to an OpenTelemetry collector."""
