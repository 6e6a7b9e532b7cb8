"""Requests to run an agent that cannot be, in their payload, their fields or their agent."""

from typing import Any

from tests.contract.wrong_inputs.running import Request, raw

MODEL = {"endpoint": "fake", "name": "fake"}
SKILLS = [{"name": "refunds", "tools": ["echo"]}, {"name": "export", "activity": "look_up"}]


def agent(**more: Any) -> dict[str, Any]:
    """A run of an agent that is written in the request."""
    return {"agent": {"name": "tester", "model": MODEL, **more}, "input": "go"}


def run(**more: Any) -> dict[str, Any]:
    """A run of a good agent."""
    return {**agent(), **more}


def data(value: Any, **more: Any) -> dict[str, Any]:
    """A message with data."""
    return {"content": [{"type": "data", "kind": "input", "data": value, **more}]}


def of(name: str, given: Any, says: str) -> Request:
    """A run that is started with one value."""
    return Request(name, [given], says)


# What is no request at all.
PAYLOADS = [
    Request("no input", [], 'there is no value; write one JSON object: {"agent": …, "input": …}'),
    Request(
        "two inputs",
        [{"agent": "helper"}, "go"],
        'start it with one JSON object, not with 2 values: {"agent": …, "input": …}',
    ),
    of(
        "a text", "helper", '`helper` does not fit; write one JSON object: {"agent": …, "input": …}'
    ),
    of("no agent", {"input": "go"}, "`agent` is missing; add it"),
    of(
        "an object nested too deep",
        raw(b"[" * 5000 + b"]" * 5000),
        "it cannot be read: Invalid JSON: recursion limit exceeded at line 1 column 202; "
        "send one JSON value",
    ),
    of("binary", raw(b"\x00\x01", b"binary/plain"), "it is binary, not JSON; send one JSON value"),
    of(
        "an encoding of others",
        raw(b"\x00\x01", b"foo/bar"),
        "it cannot be read: Unknown payload encoding foo/bar; send one JSON value",
    ),
]

# A good object with something wrong in it.
FIELDS = [
    of(
        "agnet",
        {"agnet": "helper", "input": "go"},
        "`agnet`: unknown field `agnet`; did you mean `agent`?",
    ),
    of(
        "an agent that does not exist",
        {"agent": "helpr", "input": "go"},
        "`agent`: there is no agent `helpr`; did you mean `helper`?",
    ),
    of(
        "a state that breaks the schema",
        {"agent": "clerk", "input": {"order": "A-1"}, "state": {"count": "x"}},
        ('`state` does not fit the schema of agent `clerk`: count: "x" is not of type "integer"'),
    ),
    of(
        "a principal without id",
        run(principal={"scopes": ["orders:read"]}),
        "`principal`: `id` is missing; add it",
    ),
    of(
        "a token and an id",
        run(principal={"token": "ey", "id": "anna"}),
        "`principal.token`: unknown field `token`; known: `expiresAt`, `id`, `scopes`",
    ),
    of(
        "a tool choice that the skill does not have",
        agent(skills=SKILLS) | {"skill": "export", "toolChoice": {"name": "echo"}},
        "`toolChoice`: skill `export` has no tool `echo`; it has none",
    ),
    of(
        "a context with a wrong role",
        run(context=[{"role": "human", "content": "before"}]),
        ("`context[0].role`: `human` does not fit; write `system`, `user`, `assistant` or `tool`"),
    ),
    of(
        "an input of an instance that does not fit",
        run(
            agent={"model": MODEL, "input": {"type": "object"}},
            context=[data("x", _instance="a")],
            input=None,
        ),
        '`input` of the instance `a` does not fit the schema of agent `inline`: "x" is not of type '
        '"object"',
    ),
    of(
        "an earlier call without an id",
        run(context=[{"role": "assistant", "calls": [{"tool": "echo"}]}]),
        "`context[0].calls[0]`: `id` is missing; add it",
    ),
    of(
        "a result whose call is misspelt",
        run(context=[{"role": "tool", "callid": "a", "content": "x"}]),
        "`context[0].callid`: unknown field `callid`; did you mean `callId`?",
    ),
    of(
        "a document that is none",
        run(context=[{"content": [{"type": "document", "mediaType": "text/plain", "data": ""}]}]),
        "`context[0].content[0].mediaType`: `text/plain` does not fit; write `application/pdf`",
    ),
    of(
        "a context with an image from nowhere",
        run(context=[{"content": [{"type": "image"}]}]),
        ("`context[0].content[0]`: an image has either `url`, or `data` (base64) with `mediaType`"),
    ),
    of(
        "many mistakes at once",
        {
            "agent": "helper",
            "input": "go",
            "approvals": "no",
            "budgett": {},
            "context": [{"role": "me", "content": 1}],
            "principal": {"name": "anna"},
            "toolChoice": 3,
            "state": [],
        },
        "`context[0].role`: `me` does not fit; write `system`, `user`, `assistant` or "
        "`tool`. `context[0].content`: `1` does not fit; write a text, or a list. "
        "`state`: `[]` does not fit; write an object. `toolChoice`: `3` does not fit; "
        "write `auto`, `none` or `required`, or an object. `principal`: `id` is "
        "missing; add it. And 3 more",
    ),
]

REQUESTS = [*PAYLOADS, *FIELDS]


def tool(**more: Any) -> dict[str, Any]:
    """A run of an agent with a tool that is written in it."""
    return agent(tools=[{"_tool": "look", "_activity": "look_up", **more}])


AGENTS = [
    of(
        "an endpoint that does not exist",
        agent(model={"endpoint": "fak", "name": "x"}),
        "`agent.model.endpoint`: there is no endpoint `fak`; did you mean `fake`?",
    ),
    of(
        "a key in an agent",
        agent(model={**MODEL, "apiKey": "sk-1"}),
        "`agent.model.apiKey`: unknown field `apiKey`; known: `accepts`, `endpoint`, "
        "`maxOutputTokens`, `name`, `options`, `reasoning`, `retryFor`, `temperature`",
    ),
    of(
        "auto for a tool it does not have",
        agent(tools=["look_up"], approval={"auto": ["pay"]}),
        "`agent.approval.auto`: `approval.auto` names `pay`, which is not among the "
        "agent's tools; known: `look_up`",
    ),
]
