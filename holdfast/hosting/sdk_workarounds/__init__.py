"""Workarounds that depend on private names of `temporalio`.

- `shared_sandbox`: one sandbox for all runs of a worker
- `query_divergence`: fail the workflow task of a run that got ahead of its history
- `cached_runs`: remove a run that may be ahead from the cache; query a run there
- `activity_definitions`: the definition that `@activity.defn` attaches to a function
- `payload_passes`: skip the SDK's walks over payloads where they change nothing
- `worker_shutdown`: notice the beginning of a shutdown
- `workflow_runner`: which of these are in use, by the version of `temporalio`
"""
