"""Google's Gemini API: `format` of requests, `answer`, `schema`, `provider_data`."""
