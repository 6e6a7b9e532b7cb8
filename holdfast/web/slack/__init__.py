"""Decisions in Slack: signed requests of an app, its buttons and its dialogs."""
