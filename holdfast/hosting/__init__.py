"""Build and run a worker.

`options` reads its settings, `resources` loads what they name, `worker` builds the Temporal
workers, and `check` only loads. Beside them: the connection to Temporal, the embedded server,
deployments, probes, telemetry, and `sdk_workarounds`, the place for private names of `temporalio`.
"""
