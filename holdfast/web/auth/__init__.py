"""Authentication of people and programs, and their sessions."""
