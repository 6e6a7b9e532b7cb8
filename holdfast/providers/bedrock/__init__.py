"""Amazon Bedrock's Converse: `format` of requests, `answer`, `event_stream`."""
