"""OpenAI's chat completions: `format` of requests, `answer`, `schema`."""
