"""Forms from JSON Schemas: their fields, the values that they hold, and differences."""
