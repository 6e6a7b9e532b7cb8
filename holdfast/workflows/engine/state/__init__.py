"""Values that references read and results are written to."""
