"""Anthropic's Messages API: `format` of requests, `answer`, `schema`."""
