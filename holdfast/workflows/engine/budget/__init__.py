"""The use of a run's budget, and the shares that delegates reserve."""
