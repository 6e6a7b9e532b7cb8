"""The activities of a worker.

| activity type | module |
| --- | --- |
| `generate` | `generate.py`: one request to a model |
| `resolve_agent`, `resolve_tool` | `resolve.py`: the definition that a run keeps |
| `fetch_knowledge` | `knowledge.py` |
| `memory_read`, `memory_search`, `memory_write` | `memory_access.py` |
| `check_token` | `check_token.py` |
| `tell_people` | `notify/channels.py` |
| `record_spans` | `record_spans.py` |

`model/` is what `generate` is made of; `interceptors/` surround every activity of the worker.
"""
