"""Questions to people, approval policies, decisions, notifications."""
