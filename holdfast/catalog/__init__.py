"""Tools, agents and model endpoints from files and Python modules.

`loader` reads a catalog as a whole and reports every problem by file and line; `reload` keeps it
current while the worker runs. `tool_reader` and `agent_reader` resolve one definition each.
"""
