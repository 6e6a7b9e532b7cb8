"""The page of one run: its status, its log as it grows, and messages to it."""
