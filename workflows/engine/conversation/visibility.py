"""What a call hears of its run's conversation: of other instances' calls, nothing.

What people and the model say is for all, save data that an instance has of its own. A call is its
instance's, and with it its result and what its tool said. One of no instance is for all if it was
run: then the run had none yet. Of one that was refused before it was known whose it is
no one hears, since no one can tell whose data the model wrote into it.
"""

from collections.abc import Collection

from holdfast.workflows.engine.log.compressed_pages import Record
from holdfast.workflows.engine.log.log import Log
from holdfast.workflows.engine.run_state import RunState

_RETOLD = ("content", "said", "calls", "providerData")


def visible_messages(messages: list[Record], instance: str | None, state: RunState) -> list[Record]:
    """Return those messages of the log, and of them what, a call for the instance hears.

    In a run without instances that is all.
    """
    if not state.data.instances():
        return messages
    known = _known(instance, state.log)
    own = ((record, _own(record["message"], instance, known)) for record in messages)
    return [{**record, "message": message} for record, message in own if message is not None]


def _known(instance: str | None, log: Log) -> set[str]:
    """Return the calls that a call for the instance hears of."""
    begun = {record["callId"] for record in log.entries("tool_start")}
    whose = {record["callId"]: record.get("instance") for record in log.entries("tool_call")}
    return {one for one, of in whose.items() if (one in begun if of is None else of == instance)}


def _own(message: Record, instance: str | None, known: Collection[str]) -> Record | None:
    """Return what the instance hears of a message; None for nothing.

    In composed calling all calls are in the content, so what the model said besides is shown in
    place of it; what a provider wants back may hold them too.
    """
    if message.get("instance", instance) != instance:
        return None
    if "callId" in message:
        return message if message["callId"] in known else None
    content = message["said"] if "said" in message else message.get("content", "")
    if isinstance(content, list):
        content = [part for part in content if part.get("_instance", instance) == instance]
    calls = [call for call in message.get("calls", ()) if call["id"] in known]
    told = {key: value for key, value in (("content", content), ("calls", calls)) if value}
    rest = {key: value for key, value in message.items() if key not in _RETOLD}
    return {**rest, **told} if told else None
