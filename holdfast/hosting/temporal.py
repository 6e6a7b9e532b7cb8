"""Connect to Temporal, and check which search attributes its namespace has."""

import asyncio
import logging
from collections.abc import Sequence

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, Plugin
from temporalio.envconfig import ClientConnectConfig
from temporalio.runtime import TelemetryConfig
from temporalio.service import RPCError, RPCStatusCode

from holdfast.hosting.monitoring.worker_telemetry import core_runtime
from holdfast.runtime.connection_errors import TemporalConnectionError, explain_failure
from holdfast.schemas import names
from holdfast.validation.problems import FixableError

CONNECT_TIMEOUT_SECONDS = 10
REGISTER_TIMEOUT_SECONDS = 10
_BETWEEN_SECONDS = 0.1
_AWAY = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
_WAIT = "start this worker again once it does"
_START_ONE = "start one, set TEMPORAL_ADDRESS, or add `--dev` for a server of its own"

_KEYWORD = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
_KEYWORD_LIST = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST
_DATETIME = IndexedValueType.INDEXED_VALUE_TYPE_DATETIME
_TYPES: dict[str, IndexedValueType.ValueType] = {
    **dict.fromkeys((names.AGENT_NAME, names.AGENT_STATUS, names.AGENT_PRINCIPAL), _KEYWORD),
    names.FORKED_FROM: _KEYWORD,
    **dict.fromkeys((names.PENDING_TOOLS, names.PENDING_FOR), _KEYWORD_LIST),
    **dict.fromkeys((names.PENDING_SINCE, names.PENDING_UNTIL), _DATETIME),
}

logger = logging.getLogger("holdfast")


async def connect(
    settings: ClientConnectConfig,
    plugins: Sequence[Plugin] = (),
    metrics: TelemetryConfig | None = None,
) -> Client:
    """Return a client for the settings' server and namespace; `metrics` is for the SDK's core.

    Raises:
        TemporalConnectionError: the address is invalid, or no server answers there.
        FixableError: the server lacks the namespace.
    """
    address = settings["target_host"]
    async with explain_failure(address, CONNECT_TIMEOUT_SECONDS, _START_ONE):
        client = await Client.connect(**settings, plugins=plugins, runtime=core_runtime(metrics))
        try:
            request = DescribeNamespaceRequest(namespace=client.namespace)
            await client.workflow_service.describe_namespace(request)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                create = f"temporal operator namespace create {client.namespace}"
                wrong = f"there is no namespace `{client.namespace}`"
                raise FixableError(wrong, f"set TEMPORAL_NAMESPACE, or: {create}") from error
            if error.status != RPCStatusCode.PERMISSION_DENIED:
                raise
    return client


async def usable_search_attributes(client: Client) -> list[str]:
    """Return those of ours that the namespace has, registering missing ones.

    A warning reports attributes that cannot be registered, for lack of permission or of room: runs
    work without them.

    Raises:
        TemporalConnectionError: the server does not answer.
    """
    present: dict[str, int] = {}
    try:
        present = await _listed(client)
        for wanted in (names.NEEDED_ATTRIBUTES, names.WAITING_ATTRIBUTES, (names.FORKED_FROM,)):
            missing = {name: _TYPES[name] for name in wanted if name not in present}
            if missing:
                present = await _register(client, missing)
    except (RPCError, TimeoutError) as error:
        if isinstance(error, RPCError) and error.status in _AWAY:
            raise TemporalConnectionError(f"Temporal does not answer: {error}", _WAIT) from error
        logger.warning(
            "search attributes could not be registered (%s); runs are listed without them. An "
            "operator can: temporal operator search-attribute create",
            error,
        )
    ours = (*names.SEARCH_ATTRIBUTES, names.FORKED_FROM)
    usable = [name for name in ours if present.get(name) == _TYPES[name]]
    for name in [name for name in _TYPES if name in present and name not in usable]:
        logger.warning("the search attribute %s has another type here; it is not used", name)
    return usable


async def _listed(client: Client) -> dict[str, int]:
    request = ListSearchAttributesRequest(namespace=client.namespace)
    answer = await client.operator_service.list_search_attributes(request, retry=True)
    return {name: int(kind) for name, kind in answer.custom_attributes.items()}


async def _register(
    client: Client, missing: dict[str, IndexedValueType.ValueType]
) -> dict[str, int]:
    request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
    try:
        await client.operator_service.add_search_attributes(request)
    except RPCError as error:
        # Another worker that starts at the same time may have registered it first.
        if error.status != RPCStatusCode.ALREADY_EXISTS:
            raise
    async with asyncio.timeout(REGISTER_TIMEOUT_SECONDS):
        while not missing.keys() <= (present := await _listed(client)).keys():
            await asyncio.sleep(_BETWEEN_SECONDS)
    return present
