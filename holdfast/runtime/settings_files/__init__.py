"""Read JSON, YAML and Markdown with the line of each value, and describe problems."""
