"""Signals, messages and questions to a running run that are not what it takes."""

from typing import Any

from tests.contract.wrong_inputs.running import Query, Signal, Update, raw
from tests.contract.wrong_inputs.running_decisions import decision


def approve(name: str, *given: Any, says: str) -> Signal:
    """A decision by the signal, which is ignored, and noted."""
    return Signal(name, "approve", given, says)


SENT = [
    Update(
        "waiting",
        "send to a run that is no conversation",
        "send",
        [{"content": "hello"}],
        "not_a_conversation",
        "the run is no open conversation: signal `message` instead",
    ),
    Update(
        "waiting",
        "an update that does not exist",
        "decied",
        [{"callId": "t1c1"}],
        "RuntimeError",
        "Update handler for 'decied' expected but not found, and there is no dynamic "
        "handler. known updates: [claim decide renew send withdraw]",
    ),
]
# To a conversation that is open.
SAID = [
    Update(
        "talking",
        "no content",
        "send",
        [{"text": "hello"}],
        "invalid_request",
        "`content` is missing; add it. `text`: unknown field `text`; known: `audience`, "
        "`content`, `delivery`, `role`, `skill`",
    ),
    Update(
        "talking",
        "content that is a number",
        "send",
        [{"content": 7}],
        "invalid_request",
        "`content`: `7` does not fit; write a text, or a list",
    ),
]

# This one is kept for its call, and noted when the run ends without it.
KEPT = approve(
    "a call that never waits",
    decision("t9c9", "approve"),
    says="decisions were ignored, since no approval of these calls was pending: `t9c9`",
)
SIGNALS = [
    approve(
        "nothing",
        says=(
            'a decision was ignored: there is no value; write one JSON object: {"callId": '
            '…, "decision": "approve"}'
        ),
    ),
    approve(
        "already decided",
        decision("t1c3", "approve"),
        says="call t1c3 is decided already: deny by ben (unverified)",
    ),
    Signal(
        "nothing",
        "message",
        [],
        'a message was ignored: there is no value; write one JSON object: {"content": …}',
    ),
    Signal(
        "no content",
        "message",
        [{"text": "hello"}],
        "a message was ignored: `content` is missing; add it. `text`: unknown field "
        "`text`; known: `audience`, `content`, `delivery`, `role`, `skill`",
    ),
    Signal(
        "a skill for people",
        "message",
        [{"content": "hello", "audience": "people", "skill": "refunds"}],
        "a message was ignored: `skill` changes nothing in a message for people; leave it out",
    ),
]

QUERIES = [
    Query(
        "after less than nothing",
        "events",
        [{"after": -1}],
        "`after`: `-1` does not fit; write 0 or more",
    ),
    Query(
        "a page that is a number",
        "events",
        [3],
        '`3` does not fit; write one JSON object: {"after": 0, "limit": 100}',
    ),
    Query(
        "no JSON",
        "events",
        [raw(b"{{{")],
        "it cannot be read: Invalid JSON: key must be a string at line 1 column 2; "
        "send one JSON value",
    ),
    Query(
        "state of an instance",
        "state",
        ["order-1"],
        "this run has no instances; name none",
    ),
    Query(
        "a query that does not exist",
        "approval",
        [],
        "Query handler for 'approval' expected but not found, known queries: "
        "[__enhanced_stack_trace __stack_trace __temporal_workflow_metadata approvals "
        "call context events pages request state status tool]",
    ),
]
