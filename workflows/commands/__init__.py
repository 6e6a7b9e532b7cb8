"""Execute the engine's steps: activities, child workflows, waits, and their options."""
