"""OpenAI's Responses API: `format` of requests, `answer`."""
