"""Google's Gemini API: `format` of requests, `answer`, `schema`."""
