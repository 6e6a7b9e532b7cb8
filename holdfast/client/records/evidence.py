"""The evidence of a run: its log, its definitions, and the decisions as they were sent.

A worker answers for the log. The definitions, the decisions with their tokens, and the versions of
the workers are in the histories of the run's executions, as far as the namespace still has them.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

import holdfast
from holdfast.client.errors import NoSuchRunError, explain_rpc_errors
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.records.evidence_file import VERSION
from holdfast.client.records.run_cost import MAX_EXECUTIONS
from holdfast.client.run_lists import RunListing
from holdfast.schemas import names
from holdfast.schemas.agent import ModelSettings
from holdfast.schemas.base import canonical_json, rfc3339, sha256
from holdfast.schemas.log_entry import ForkedEntry, ToolStartEntry, TurnEndEntry, read_record

# The activities that read the definition of a run.
_DEFINITIONS: Final = {names.RESOLVE_AGENT: "agent", names.RESOLVE_TOOL: "tool"}


async def read_evidence(client: HoldfastClient, run_id: str) -> list[dict[str, Any]]:
    """Return the records of a run's evidence: a header, definitions, the log, sent decisions.

    Raises:
        HoldfastError: the run does not exist, or no worker answers for its log.
    """
    run, found = client.run(run_id), _Histories(client.temporal, run_id)
    description, is_closed = await run.describe(), (await run.observe()).closed
    end = (await run.status()).log
    entries = [each async for each in run.entries(names.CONTEXT, last=end.entries)]
    await found.read(description.run_id)
    listing, events = RunListing.of(description), [read_record(each).entry for each in entries]
    answered = {each.model for each in events if isinstance(each, TurnEndEntry) and each.model}
    forked = max((n for n, each in enumerate(events) if isinstance(each, ForkedEntry)), default=0)
    own = (each for each in events[forked:] if isinstance(each, ToolStartEntry))
    delegating = [each for each in own if each.delegate]
    header: dict[str, Any] = {
        "type": "header",
        "version": VERSION,
        "run": run_id,
        "namespace": client.temporal.namespace,
        "executions": [*found.reset, *found.executions],
        "complete": found.is_complete
        and not any(each["type"] == "left_out" or "cut" in each for each in entries),
        "agent": listing.agent,
        "principal": listing.principal,
        "models": sorted(answered or found.models),
        "delegates": [names.delegate_id(run_id, each.call_id) for each in delegating],
        "versions": {"holdfast": holdfast.__version__, "workers": sorted(found.workers)},
        "madeAt": rfc3339(datetime.now(UTC)),
        "log": end.to_json(),
        "status": listing.status,
    }
    if is_closed:
        ending = await run.ending(unread="it is not part of the evidence")
        header |= {"status": ending.status, "end": ending.event()}
    log = [{"type": "log", "entry": each} for each in entries]
    return [header, *found.definitions, *log, *sorted(found.sent, key=lambda each: each["at"])]


class _Histories:
    def __init__(self, client: Client, run_id: str) -> None:
        self._client, self._run_id = client, run_id
        self.executions: list[str] = []
        # Those whose decisions a reset has kept: a decision's nonce is of the one that asked.
        self.reset: list[str] = []
        self.is_complete = False
        self.workers, self.models = set[str](), set[str]()
        self.definitions: list[dict[str, Any]] = []
        self.sent: list[dict[str, Any]] = []

    async def read(self, execution: str) -> None:
        """Read an execution, and those that it continues."""
        while execution and len(self.executions) < MAX_EXECUTIONS:
            handle, previous = self._client.get_workflow_handle(self._run_id, run_id=execution), ""
            try:
                with explain_rpc_errors(self._run_id):
                    async for event in handle.fetch_history_events():
                        start = event.workflow_execution_started_event_attributes
                        previous = previous or start.continued_execution_run_id
                        await self._add(event, execution)
            except NoSuchRunError:
                break  # retention has removed it
            self.executions.insert(0, execution)
            execution = previous
        self.is_complete = not execution

    async def _add(self, event: HistoryEvent, execution: str) -> None:
        name, payloads = str(event.WhichOneof("attributes")), None
        attributes: Any = getattr(event, name, None)
        match name.removesuffix("_event_attributes"):
            case "workflow_task_completed":
                sdk, deployed = attributes.sdk_metadata, attributes.deployment_version
                build = deployed.build_id or attributes.worker_version.build_id
                texts = (f"{sdk.sdk_name} {sdk.sdk_version}", f"{deployed.deployment_name} {build}")
                self.workers |= {*map(str.strip, texts)} - {""}
            case "workflow_task_failed" if attributes.base_run_id:
                self.reset.append(attributes.base_run_id)
            case "marker_recorded" if {"data", "result"} <= attributes.details.keys():
                details = attributes.details
                await self._add_definition(details["data"].payloads, details["result"].payloads)
            case "workflow_execution_update_accepted" if (
                attributes.accepted_request.input.name == names.DECIDE
            ):
                payloads = attributes.accepted_request.input.args.payloads
            case "workflow_execution_signaled" if attributes.signal_name == names.APPROVE:
                payloads = attributes.input.payloads
        if payloads:
            at = rfc3339(event.event_time.ToDatetime(UTC))
            place = {"at": at, "execution": execution, "event": event.event_id}
            decision = (await self._decode(payloads))[0]
            self.sent.append({"type": "sent", **place, "decision": decision})

    async def _add_definition(self, about: Sequence[Payload], result: Sequence[Payload]) -> None:
        """Add what a local activity has read, as the SDK records it: `about` is not encoded."""
        if kind := _DEFINITIONS.get(json.loads(about[0].data).get("activity_type")):
            definition = (await self._decode(result))[0][kind]
            if definition.get("model"):
                self.models |= {ModelSettings.model_validate(definition["model"]).label}
            digest = sha256(canonical_json(definition))
            self.definitions.append({"type": kind, "digest": digest, "definition": definition})

    async def _decode(self, payloads: Sequence[Payload]) -> list[Any]:
        return await self._client.data_converter.decode(list(payloads))
