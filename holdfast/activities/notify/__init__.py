"""Notifications of people: the channels, their settings, and the text of a message."""
