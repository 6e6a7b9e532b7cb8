"""A client of runs: start, follow, decide, list.

A `Run` is one run by its id; `stream/` follows it; errors are `HoldfastError`s with an exit code.
"""
