"""The approval policies of a catalog: rules by arguments, and the bounds of `limits.yaml`."""
