"""The parts of `generate`: reading the conversation, its cache, the heartbeat, telemetry."""
