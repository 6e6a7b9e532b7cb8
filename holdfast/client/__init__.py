"""A client of runs: start, follow, decide, list.

`HoldfastClient` starts and finds runs, a `Run` is one of them by its id, a `PendingCall` one that
waits in it; `stream/` follows a run; errors are `HoldfastError`s with an exit code.
"""
