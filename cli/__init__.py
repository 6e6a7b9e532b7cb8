"""The `holdfast` command: its options in `main`, one module for each group of commands.

`screens/` draws a run, `prompts/` asks for decisions, `template/` is what `holdfast init` writes.
"""
