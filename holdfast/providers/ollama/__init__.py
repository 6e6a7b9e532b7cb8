"""Ollama's chats: `format` of requests, `answer`, `schema`, and the server's `host`."""
