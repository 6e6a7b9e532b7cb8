"""A client of runs: start, follow, decide, list.

A `RunHandle` is one run by its id; `stream/` follows it; errors are
`CommandError`s with an exit code.
"""
