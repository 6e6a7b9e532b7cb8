"""OpenAI's chat completions: `format` of requests, `answer`, `extra_fields`."""
