"""Public keys, key sets and signed tokens of people and services."""
