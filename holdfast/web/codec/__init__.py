"""The codec endpoint, with which Temporal's UI decrypts payloads."""
