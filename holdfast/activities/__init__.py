"""The activities of a worker.

| activity type | module |
| --- | --- |
| `generate` | `generate.py` |
| `resolve_agent`, `resolve_tool` | `resolve.py` |
| `fetch_knowledge` | `knowledge.py` |
| `memory_read`, `memory_search`, `memory_write` | `memory_access.py` |
| `check_token` | `check_token.py` |
| `tell_people` | `notify/channels.py` |
| `record_spans` | `model/chat_telemetry.py` |
| `find_signals` | `find_signals.py` |
| `call_mcp_tool` | `mcp/call_tool.py` |

`model/` has the parts of `generate`; `interceptors/` wrap every activity of the worker.
"""
