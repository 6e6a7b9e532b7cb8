"""Execute the engine's steps: activities, child workflows, waits; and publish the run's state."""
