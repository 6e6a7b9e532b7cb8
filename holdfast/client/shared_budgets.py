"""Budgets that runs share, as their workflows report them."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import unquote

from temporalio.service import RPCError

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.schemas import names
from holdfast.schemas.internal.shared_budgets import BudgetView

MAX_SCOPES: Final = 1_000
_OPEN: Final = f'WorkflowType = "{names.BUDGET_WORKFLOW}" AND ExecutionStatus = "Running"'
_CONCURRENT: Final = 32
_ANSWER: Final = timedelta(seconds=2)


async def read_budgets(client: HoldfastClient, limit: int = MAX_SCOPES) -> list[BudgetView]:
    """Return the budgets of the present windows, each scope apart, by name and scope.

    One whose worker does not answer has no uses.

    Raises:
        HoldfastError: Temporal does not answer.
    """
    listed = await client.list_runs(_OPEN, MAX_SCOPES)
    slots = asyncio.Semaphore(_CONCURRENT)

    async def read(id: str) -> BudgetView:
        try:
            async with slots:
                handle = client.temporal.get_workflow_handle(id)
                return BudgetView.read(await handle.query(names.READ, rpc_timeout=_ANSWER))
        except RPCError:
            _, name, scope, window = id.split("/")
            return BudgetView(name=name, scope=unquote(scope), window=window)

    ids = sorted(each.id for each in listed if each.id.count("/") == 3)[:limit]
    found = await asyncio.gather(*map(read, ids))
    now = datetime.now(UTC)
    return [each for each in found if each.ends_at is None or each.ends_at > now]
