"""Encrypt payloads with AES-256-GCM, as the samples of Temporal's SDKs do."""
