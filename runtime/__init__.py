"""The parts that each process of Holdfast shares, below tools, agents and workflows.

Settings files with line numbers, secrets and their redaction, keys and tokens, encryption, the
store for large values, telemetry, and text that is safe to print.
"""
