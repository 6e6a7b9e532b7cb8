"""Tools of this project: a docstring and the parameters are what the model reads."""

import json
from pathlib import Path
from typing import Annotated

from pydantic import Field

from holdfast import tool

REFUNDS = Path("refunds.jsonl")


# A tool with side effects runs only after a person approves the call.
@tool(side_effects=True, title="Refund an order")
def refund(
    order_id: Annotated[str, Field(description="The number of the order.")],
    amount: Annotated[float, Field(gt=0, le=1000, description="How much to pay back, in euros.")],
) -> dict[str, str]:
    """Pay money back for an order."""
    with REFUNDS.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"order_id": order_id, "amount": amount}) + "\n")
    return {"order_id": order_id, "paid_back": f"{amount:.2f} euros"}
