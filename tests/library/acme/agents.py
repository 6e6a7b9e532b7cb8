"""The company's agent, in Python; its tool is in a file."""

from pydantic import BaseModel

from holdfast import Agent


class Reply(BaseModel):
    """What the agent answers."""

    text: str


support = Agent(
    "support",
    model="fake:any",
    tools=["refund"],
    output=Reply,
    instructions="Refund broken orders.",
)
