"""The page of one call: its question, the forms of a decision, and the outcome."""
