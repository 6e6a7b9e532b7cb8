"""Store values that are too large for Temporal, in a folder or a bucket."""
