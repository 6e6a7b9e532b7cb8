"""The `holdfast` command: its options in `main`, one module for each group of commands.

A command returns its exit code. Its `HoldfastError`, `StartError` or `RPCError` becomes a line and
a code in `main`.

`screens/` draws a run, `prompts/` asks for decisions, `template/` is what `holdfast init` writes.
"""
