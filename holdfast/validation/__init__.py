"""JSON Schema validation, coercion, lenient JSON, regular expressions, problems in values."""
