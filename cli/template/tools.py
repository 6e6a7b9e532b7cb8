"""Tools of this project: Temporal activities, which import nothing of Holdfast.

The docstring of an activity and the fields of its parameter are what the model reads.
"""

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field
from temporalio import activity

REFUNDS = Path("refunds.jsonl")


class Refund(BaseModel):
    """The arguments of `refund`. A tool with side effects runs only after a person approves it."""

    model_config = ConfigDict(
        json_schema_extra={"_label": "Refund an order", "_sideEffects": True},
    )

    order_id: str = Field(description="The number of the order.")
    amount: float = Field(gt=0, le=1000, description="How much to pay back, in euros.")


@activity.defn
def refund(arguments: Refund) -> dict[str, str]:
    """Pay money back for an order."""
    with REFUNDS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(arguments.model_dump()) + "\n")
    return {"order_id": arguments.order_id, "paid_back": f"{arguments.amount:.2f} euros"}
