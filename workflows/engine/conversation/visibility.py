"""The part of its run's conversation that a call sees: no calls of other instances.

Messages of people and of the model are visible to all, except data of a single instance. A call
belongs to its instance, and so do its result and its tool's messages. A call without an instance is
visible to all if it ran: the run had no instances then. A call that was refused before its instance
was known is visible to none, since its arguments may hold any instance's data.
"""

from collections.abc import Collection

from holdfast.workflows.engine.log.compressed_pages import Record
from holdfast.workflows.engine.log.log import Log
from holdfast.workflows.engine.run_state import RunState

_RETOLD = ("content", "said", "calls", "providerData")


def visible_messages(messages: list[Record], instance: str | None, state: RunState) -> list[Record]:
    """Return the messages of the log, and the parts of them, that a call for the instance sees.

    In a run without instances, these are all messages.
    """
    if not state.data.instances():
        return messages
    known = _known(instance, state.log)
    own = ((record, _own(record["message"], instance, known)) for record in messages)
    return [{**record, "message": message} for record, message in own if message is not None]


def _known(instance: str | None, log: Log) -> set[str]:
    """Return the calls that are visible to a call for the instance."""
    begun = {record["callId"] for record in log.entries("tool_start")}
    whose = {record["callId"]: record.get("instance") for record in log.entries("tool_call")}
    return {one for one, of in whose.items() if (one in begun if of is None else of == instance)}


def _own(message: Record, instance: str | None, known: Collection[str]) -> Record | None:
    """Return the part of a message that the instance sees; None if there is none.

    In composed calling, the content holds all calls, so the model's other text is shown instead of
    it; the data that a provider expects back may hold calls too.
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
