"""Workflows on orders; one has an agent of Holdfast as its child."""

import time
from datetime import timedelta
from typing import Any

from temporalio import workflow

from holdfast import execute_agent

with workflow.unsafe.imports_passed_through():
    from tests.library.acme.activities.orders import locate_order, look_up_customer
    from tests.library.acme.agents import support

TWO_MINUTES = timedelta(minutes=2)


@workflow.defn
class OrderWorkflow:
    """Looks up the customer of an order, and has an agent answer the complaint."""

    @workflow.run
    async def run(self, order_id: str) -> dict[str, Any]:
        """Return the customer, the row on the map, and the reply of the agent."""
        customer = await workflow.execute_activity(
            look_up_customer, order_id, start_to_close_timeout=TWO_MINUTES
        )
        place = await workflow.execute_activity(
            locate_order, order_id, start_to_close_timeout=TWO_MINUTES
        )
        reply = await execute_agent(
            support,
            f"Order {order_id} arrived broken",
            id=f"{workflow.info().workflow_id}.support",
        )
        return {"customer": customer, "row": place.real, "reply": reply.text}


@workflow.defn
class ImpureWorkflow:
    """Reads the clock, which its sandbox refuses."""

    @workflow.run
    async def run(self) -> float:
        """Return the time of the machine."""
        return time.time()
