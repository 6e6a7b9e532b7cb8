"""The durable workflows.

| workflow type | module | what it runs |
| --- | --- | --- |
| `AgentWorkflow` | `agent.py` | one agent, from a request to a result |
| `CallWorkflow` | `base_workflow.py` | one call of one tool, without a model |
| `MemoryWorkflow` | `memory.py` | one agent's memory, which outlives its runs |
| `AbsencesWorkflow` | `absences.py` | when approvers are away, and their substitutes |
| `BudgetWorkflow` | `budget.py` | what runs of one scope use of a shared budget in one window |

`base_workflow.py` has the handlers and the main loop that agents and single calls share.
`commands/` executes the engine's steps as activities, timers and child workflows, and keeps search
attributes and notifications up to date; `ui_details/` writes the page of Temporal's UI; `engine/`
decides.
"""
