"""The way to Temporal, and what the namespace there has."""

import asyncio
import logging

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.service import RPCError, RPCStatusCode

from hosting.errors import unreachable, wrong_setup
from hosting.logs import core_runtime
from schemas import names

DEFAULT_ADDRESS = "localhost:7233"
CONNECT_TIMEOUT_SECONDS = 10
REGISTER_TIMEOUT_SECONDS = 10
_BETWEEN_SECONDS = 0.1

_KEYWORD = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
_TYPES: dict[str, IndexedValueType.ValueType] = {
    **dict.fromkeys(names.SEARCH_ATTRIBUTES, _KEYWORD),
    names.PENDING_TOOLS: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST,
}

logger = logging.getLogger("holdfast")


def connect_settings() -> ClientConnectConfig:
    """Where Temporal is, as every Temporal program reads it, and how one is let in.

    Raises:
        StartError: the settings cannot be read.
    """
    try:
        settings = ClientConfig.load_client_connect_config()
    except (RuntimeError, ValueError) as error:
        todo = "mend temporal.toml or the TEMPORAL_ variables"
        raise wrong_setup(f"Temporal's settings cannot be read: {error}", todo) from error
    settings.setdefault("target_host", DEFAULT_ADDRESS)
    return settings


async def connect(settings: ClientConnectConfig) -> Client:
    """A client for the server and the namespace that the settings name.

    Raises:
        StartError: no server answers there, or it does not have the namespace.
    """
    address = settings["target_host"]
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            client = await Client.connect(
                **settings, data_converter=pydantic_data_converter, runtime=core_runtime()
            )
            await _check_namespace(client)
    except (TimeoutError, RuntimeError, ValueError, RPCError) as error:
        wrong = f"no Temporal server answers at {address}{_why(error)}"
        todo = "start one, set TEMPORAL_ADDRESS, or add `--dev` for a server of its own"
        raise unreachable(wrong, todo) from error
    return client


def _why(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if not text or "ConnectionRefused" in text:
        return ""
    return f" ({text.removeprefix('Failed client connect: ')[:300]})"


async def _check_namespace(client: Client) -> None:
    try:
        asked = DescribeNamespaceRequest(namespace=client.namespace)
        await client.workflow_service.describe_namespace(asked)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            todo = (
                f"set TEMPORAL_NAMESPACE, or: temporal operator namespace create {client.namespace}"
            )
            raise wrong_setup(f"there is no namespace `{client.namespace}`", todo) from error
        if error.status != RPCStatusCode.PERMISSION_DENIED:
            raise


async def usable_search_attributes(client: Client) -> list[str]:
    """Which of `names.SEARCH_ATTRIBUTES` the namespace has, once the missing are registered.

    Where they may not be registered, a warning says so: runs go on without.
    """
    present: dict[str, int] = {}
    try:
        present = await _listed(client)
        missing = {name: kind for name, kind in _TYPES.items() if name not in present}
        if missing:
            present = await _register(client, missing)
    except (RPCError, TimeoutError) as error:
        logger.warning(
            "search attributes could not be registered (%s); runs are listed without them. An "
            "operator can: temporal operator search-attribute create",
            error,
        )
    usable = [name for name, kind in _TYPES.items() if present.get(name) == kind]
    for name in [name for name in _TYPES if name in present and name not in usable]:
        logger.warning("the search attribute %s has another type here; it is not used", name)
    return usable


async def _listed(client: Client) -> dict[str, int]:
    asked = ListSearchAttributesRequest(namespace=client.namespace)
    answer = await client.operator_service.list_search_attributes(asked)
    return {name: int(kind) for name, kind in answer.custom_attributes.items()}


async def _register(
    client: Client, missing: dict[str, IndexedValueType.ValueType]
) -> dict[str, int]:
    asked = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
    try:
        await client.operator_service.add_search_attributes(asked)
    except RPCError as error:
        # Another worker that starts at the same time may have been quicker.
        if error.status != RPCStatusCode.ALREADY_EXISTS:
            raise
    async with asyncio.timeout(REGISTER_TIMEOUT_SECONDS):
        while not missing.keys() <= (present := await _listed(client)).keys():
            await asyncio.sleep(_BETWEEN_SECONDS)
    return present
