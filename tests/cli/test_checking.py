"""`holdfast check`: what it reports of a catalog, and of modules that do what they should not."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.hosting import worker
from tests.activities.mcp.servers import shop
from tests.cli.conftest import Holdfast, Start
from tests.encryption.keys import NEW, key_file
from tests.support.command import CommandOutput
from tests.support.eventually import eventually
from tests.support.identity.signing import Approver, write_keys

Check = Callable[..., CommandOutput]

TOOLS = """\
from pydantic import BaseModel
from temporalio import activity

{first}


class Order(BaseModel):
    order_id: str


@activity.defn
async def look_up(order: Order) -> str:
    "Look an order up."
    return order.order_id
"""
NO_SERVER = "127.0.0.1:1"
FOR_EVER = """\
import os, threading

def speak():
    while True: {}

threading.Thread(target=speak).start()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalog of one tool and one agent, and no Temporal server."""
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/desk.yaml").write_text("model: {endpoint: m}\ntools: [look_up]\n")
    (tmp_path / "endpoints.yaml").write_text("m: {provider: script, file: script.yaml}\n")
    (tmp_path / "script.yaml").write_text("- text: Done.\n")
    write(tmp_path, "")
    monkeypatch.setenv("TEMPORAL_ADDRESS", NO_SERVER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.fixture
def check(place: Path, capfd: pytest.CaptureFixture[str]) -> Check:
    """Return the check of the worker that the command starts, within this process."""

    def check_(*options: str) -> CommandOutput:
        streams = {number: os.dup(number) for number in (1, 2)}
        code = worker.main(["--check", *options])
        for number, stream in streams.items():  # a check leaves them at the null device
            os.dup2(stream, number)
            os.close(stream)
        return CommandOutput(code, *capfd.readouterr())

    return check_


def write(place: Path, first: str) -> None:
    """Write the module, with this in it to be done when it is imported."""
    (place / "shop.py").write_text(TOOLS.format(first=first))


ALL = ("--catalog", ".", "--tools", "shop.py", "--endpoints", "endpoints.yaml")


async def test_the_workers_own_variables_are_followed(
    place: Path, holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_CATALOG", str(place))
    monkeypatch.setenv("HOLDFAST_ENDPOINTS", "endpoints.yaml")
    said = await holdfast("check", "--tools", "shop.py")
    assert (said.code, said.out[:16]) == (0, "1 tool, 1 agent,")


async def test_addresses_of_knowledge_are_allowed_as_the_worker_allows_them(
    place: Path, check: Check, holdfast: Holdfast
) -> None:
    agent = "model: {endpoint: m}\nknowledge: [{name: law, url: 'https://acme.org/law'}]\n"
    (place / "agents" / "lawyer.yaml").write_text(agent)
    said = check(*ALL)
    assert "lawyer.yaml:2: `knowledge[0].url`: the worker does not allow" in said.err
    assert (await holdfast("check", *ALL, "--knowledge-url", "https://acme.org")).code == 0


PLAIN = """\
from typing import Any

from temporalio import activity


@activity.defn
async def book_room(room: str, day: str) -> str:
    return room


@activity.defn
async def pay(arguments: dict[str, Any]) -> str:
    return "paid"
"""


def test_an_activity_that_is_no_tool_is_reported_unless_a_tool_names_it(
    place: Path, check: Check
) -> None:
    (place / "plain.py").write_text(PLAIN)
    (place / "tools").mkdir()
    (place / "tools/pay.yaml").write_text("_activity: pay\n")
    said = check(*ALL, "--tools", "plain.py")
    assert (said.code, said.err) == (0, "")
    note, summary = said.out.splitlines()
    assert note.endswith(
        "plain.py:6: activity `book_room` is registered, and is no tool: its one parameter is no"
        " pydantic model; give it one, or bind it in `tools/`, if models are to call it"
    )
    assert summary == "2 tools, 1 agent, endpoints m: OK"


async def test_the_tools_with_an_unknown_outcome_are_listed_on_request(
    place: Path, holdfast: Holdfast
) -> None:
    (place / "plain.py").write_text(PLAIN)
    (place / "tools").mkdir()
    (place / "tools/pay.yaml").write_text("_sideEffects: true\n")
    options = (*ALL, "--tools", "plain.py")
    plain = await holdfast("check", *options)
    listed = await holdfast("check", *options, "--lost-replies")
    assert "lost reply" not in plain.out
    [line] = set(listed.out.splitlines()) - set(plain.out.splitlines())
    reason = "the outcome of `pay` is unknown after a lost reply (httpx, requests, urllib3,"
    assert f"plain.py:11: {reason}" in line


def test_a_definition_that_loads_and_may_not_be_meant_is_reported(
    place: Path, check: Check
) -> None:
    (place / "tools").mkdir()
    (place / "tools/pay.yaml").write_text(
        "_activity: look_up\nproperties: {to: {properties: {a: {}}, required: [a, b]}}\n"
        "required: [to, amount]\n_approval:\n  quorum: 2\n  notBy: principal\n"
    )
    (place / "tools/late.yaml").write_text(
        "_activity: look_up\n_limits: {forceAtStep: 4}\n"
        "properties: {at: {type: string, nullable: true}}\n"
    )
    (place / "agents/desk.yaml").write_text(
        "model: {endpoint: m}\nbudget: {maxTurns: 3}\napproval: {quorum: 2, signed: true}\n"
        "onThreshold: {maxTokens: 0.8}\ntools:\n- pay\n- late\n"
        "- {_tool: x, _activity: look_up, required: [a], anyOf: [true]}\n"
        "skills:\n- name: one\n  when: {required: [id]}\n"
        "  tools: [{_tool: y, _activity: look_up, required: [n]}]\n"
    )
    said = check(*ALL)
    assert (said.code, said.err) == (0, "")
    required = "is required, and is no property; add it to `properties`, or leave it out of"
    assert said.out.splitlines()[:-2] == [
        "tools/late.yaml:3: `properties.at.nullable`: it is read as another type; write"
        ' `type: [string, "null"]`',
        f"tools/pay.yaml:2: `properties.to.required[1]`: `b` {required} `required`",
        f"tools/pay.yaml:3: `required[1]`: `amount` {required} `required`",
        "tools/pay.yaml:5: `quorum` and `notBy` without `signed`: a client can"
        " decide in any name; add `signed: true`",
        "agents/desk.yaml:2: `maxTurns` 3 ends a run before `maxIterations` 6 is reached; write"
        " `maxIterations: 2`: the model is then requested to finish",
        "agents/desk.yaml:4: `maxTokens` has no limit here, so that nothing is a share of it; write"
        " `budget: {maxTokens: …}`, unless each request sets it",
        "agents/desk.yaml:5: `tools`: `late` is forced at turn 4, and calls end with turn 3; lower"
        " its `forceAtStep`, or raise the budget",
        "agents/desk.yaml:11: `when` fits every text, too; add `type: object`",
        f"agents/desk.yaml:12: `skills[0].tools[0].required[0]`: `n` {required} `required`",
    ]
    listed = json.loads(check(*ALL, "--json").out)
    assert [each["line"] for each in listed][:-1] == [3, 2, 3, 5, 2, 4, 5, 11, 12]


def test_a_repair_agent_is_named_with_what_it_has_to_return(place: Path, check: Check) -> None:
    (place / "tools").mkdir()
    (place / "tools/pay.yaml").write_text("_activity: look_up\n_repair: {agent: desk}\n")
    (place / "agents/desk.yaml").write_text("model: {endpoint: m}\n")
    said = check(*ALL)
    assert said.code == 0
    line = "agent `desk`, named by `_repair`, has to return an object, the arguments; write its"
    assert line in said.out
    (place / "agents/desk.yaml").write_text("model: {endpoint: m}\noutput: {type: object}\n")
    assert line not in check(*ALL).out


def test_strict_options_and_signed_tools_without_permits_are_reported(
    place: Path, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "plain.py").write_text(PLAIN)
    (place / "tools").mkdir()
    (place / "tools/book.yaml").write_text("_activity: book_room\n")
    key_file(place, [NEW])
    options = (*ALL, "--tools", "plain.py")

    for signed in ("true", "false"):  # the second time, for another reason
        (place / "tools/pay.yaml").write_text(f"_activity: pay\n_approval: {{signed: {signed}}}\n")
        warning, _ = check(*options).out.splitlines()
        assert warning.endswith("; give it the keys of `--permits`")
        monkeypatch.setenv("HOLDFAST_CATALOG_ONLY", "true")
    monkeypatch.delenv("HOLDFAST_CATALOG_ONLY")
    assert len(check(*options).out.splitlines()) == 1
    monkeypatch.setenv("HOLDFAST_CATALOG_ONLY", "true")
    write_keys(place / "k.json", Approver())
    sets = [f"{name}: {{file: k.json, issuer: 'https://{name}.example'}}" for name in "ab"]
    (place / "keys.yaml").write_text("\n".join(sets))
    said = check(*options, "--permits", "encryption.yaml", "--keys", "keys.yaml")
    assert said.out.startswith("--keys: people of b are named `SUB @ ISSUER`, and are one")
    said = check(*options, "--permits", "encryption.yaml")
    assert (said.code, len(said.out.splitlines())) == (0, 1)


async def test_problems_are_an_array_for_programs(place: Path, holdfast: Holdfast) -> None:
    (place / "agents/desk.yaml").write_text("model: {endpoint: m}\n\ntools: [lookup]\n")
    said = await holdfast("check", *ALL, "--json")
    assert (said.code, said.err) == (2, "")
    assert json.loads(said.out) == [
        {
            "file": "agents/desk.yaml",
            "line": 3,
            "field": "tools[0]",
            "reason": "there is no tool `lookup`",
            "mend": "did you mean `look_up`?",
        }
    ]


@pytest.mark.parametrize(
    "first",
    [
        "print('A module speaks.'); import atexit; atexit.register(print, 'Goodbye.')\n"
        "import os; os.system('echo A child'); os.write(1, b'Past Python'); os.write(2, b'and on')",
        "import os, sys; sys.stdout.close(); sys.stderr = None; os.chdir('/')",
        FOR_EVER.format("os.write(1, b'On and on.')"),
        "import os, time; os.fork() or time.sleep(90)",
    ],
)
async def test_the_output_of_a_module_is_not_part_of_the_check(
    place: Path, holdfast: Holdfast, first: str
) -> None:
    write(place, first)
    said = await holdfast("check", *ALL, "--json")
    assert (said.code, said.out, said.err) == (0, "[]\n", "")


async def test_a_module_that_ends_the_process_is_named(place: Path, holdfast: Holdfast) -> None:
    write(place, "import os; os._exit(0)")
    said = await holdfast("check", *ALL)
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        "holdfast: the check was cut short: it ended with code 0; "
        "see what `shop.py` does while it is imported\n"
    )


async def test_a_module_that_waits_is_reported_with_the_line_where_it_does(
    place: Path, holdfast: Holdfast
) -> None:
    write(place, "import time; time.sleep(600)")
    said = await holdfast("check", *ALL, "--timeout", "10s")
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        f"{place}/shop.py:4: loading has not ended in 10s: it is at this line; "
        "make requests and wait in activities, not while the module is imported\n"
    )


async def test_a_module_that_blocks_the_interpreter_is_ended_all_the_same(
    place: Path, holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.cli.project_commands.PATIENCE_SECONDS", 1)
    write(place, "import ctypes; ctypes.PyDLL(None).sleep(600)")  # it never lets go of Python
    said = await holdfast("check", *ALL, "--timeout", "5s")
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        "holdfast: the check was cut short: it did not end within 6 s; "
        "see what `shop.py` does while it is imported\n"
    )


async def test_a_module_that_reads_standard_input_gets_no_answer(
    place: Path, holdfast: Holdfast
) -> None:
    write(place, "input('Really? ')")
    said = await holdfast("check", *ALL)
    assert said.err == (
        f"{place}/shop.py:4: it cannot be imported: EOFError: EOF when reading a line; "
        "fix it there\n"
    )


async def test_ctrl_c_ends_the_worker_that_checks_as_well(place: Path, start: Start) -> None:
    pid = place / "pid"
    write(
        place, f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    )
    program = start("check", "--tools", str(place / "shop.py"), "--timeout", "10m")

    async def has_started() -> bool:
        return pid.exists() and bool(pid.read_text())

    await eventually(has_started)
    program.process.send_signal(signal.SIGINT)
    assert await program.ended() == 130

    async def gone() -> bool:
        try:
            os.kill(int(pid.read_text()), 0)
        except ProcessLookupError:
            return True
        return False

    await eventually(gone)


def test_the_composed_schema_of_a_skill_has_its_tools(place: Path, check: Check) -> None:
    skills = "skills: [{name: find, tools: [look_up]}, {name: rest}]"
    (place / "agents/desk.yaml").write_text(f"model: {{endpoint: m}}\n{skills}\n")
    for which, tool in (("desk", "choose_skill"), ("desk:find", "look_up")):
        said = check(*ALL, "--composed", which)
        call = json.loads(said.out)["properties"]["calls"]["items"]["properties"]
        assert call["_tool"] == {"type": "string", "const": tool}


@pytest.mark.parametrize(
    ("which", "problem"),
    [
        ("dest", "--composed: there is no agent `dest`; did you mean `desk`?"),
        ("desk:find", "--composed: `desk` has no skill `find`; write `desk` alone"),
    ],
)
def test_an_agent_that_there_is_not_has_no_composed_schema(
    check: Check, which: str, problem: str
) -> None:
    said = check(*ALL, "--composed", which)
    assert (said.code, said.out) == (2, "")
    assert problem in said.err


async def test_what_a_provider_does_not_accept_is_printed_and_no_error(
    holdfast: Holdfast, check: Check, place: Path
) -> None:
    (place / "tools").mkdir()
    tags = "anyOf: [{required: [tags]}]\nproperties: {tags: {type: array}}\n_activity: look_up\n"
    (place / "tools/tag.yaml").write_text(tags)
    output = "model: {endpoint: m}\noutput: {type: object}\n"
    (place / "agents/open.yaml").write_text(output)

    said = check(*ALL, "--provider", "openai")
    listed = await holdfast("check", *ALL, "--provider", "openai", "--json")
    wrong = await holdfast("check", *ALL, "--provider", "opena")

    assert said.code == 0
    assert said.out.splitlines()[:3] == [
        "--provider openai: the provider does not enforce the output of agent `open`; the run"
        " validates it",
        "--provider openai: tool `tag`: `anyOf` at the top is refused, and is in the description"
        " instead",
        "--provider openai: tool `tag`: the list at `properties.tags` has no `items`, and is sent"
        " with `items: {}`",
    ]
    assert [each["file"] for each in json.loads(listed.out)] == ["--provider openai"] * 3
    assert (wrong.code, "did you mean `openai`" in wrong.err) == (2, True)


def test_mcp_servers_are_connected_to(
    place: Path, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(shop.LEDGER, str(place / "effects"))
    program = f"command: {sys.executable}, args: [{shop.__file__}], envFrom: [{shop.LEDGER}]"
    (place / "servers.yaml").write_text(
        f"shop: {{{program}}}\nfar: {{url: 'http://{NO_SERVER}/x'}}\n"
    )
    agent = "model: {endpoint: m}\ntools: ['mcp:shop/find_orders', 'mcp:shop/refund']\n"
    (place / "agents" / "shop.yaml").write_text(agent)
    said = check(*ALL, "--servers", "servers.yaml")
    far, tool = said.err.splitlines()
    assert far.startswith("servers.yaml: MCP server `far`: ")
    assert "shop.yaml:2: `tools[0]`: MCP server `shop` has no tool `find_orders`; did you" in tool
    (place / "agents" / "shop.yaml").write_text(agent.replace("orders", "order"))
    (place / "servers.yaml").write_text(f"shop: {{{program}}}\n")
    said = check(*ALL, "--servers", "servers.yaml", "--composed", "shop")
    assert (said.code, "shop_refund" in said.out) == (0, True)


ODD = """\
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from pydantic import Field

odd = MCPServer("odd")


@odd.tool()
def find(order: Annotated[str, Field(json_schema_extra={"$id": "#order"})]) -> None:
    "Find an order."


odd.run()
"""


def test_a_schema_that_does_not_fit_its_meta_schema_is_a_warning(place: Path, check: Check) -> None:
    (place / "tools").mkdir()
    (place / "tools/pay.yaml").write_text(
        "_activity: look_up\nproperties:\n  to:\n    $id: '#to'\n"
    )
    (place / "odd.py").write_text(ODD)
    (place / "servers.yaml").write_text(f"odd: {{command: {sys.executable}, args: [odd.py]}}\n")
    said = check(*ALL, "--servers", "servers.yaml")
    assert (said.code, said.err) == (0, "")
    own, servers, *_ = said.out.splitlines()
    reason = "the schema does not fit its meta-schema: '#{}' does not match '^[^#]*#?$'; correct it"
    assert own.startswith(f"tools/pay.yaml:4: `properties.to.$id`: {reason.format('to')}")
    place_there = "MCP server `odd`, tool `find`: `_parameters.properties.order.$id`: "
    assert servers.startswith(f"servers.yaml: {place_there}{reason.format('order')}")


async def test_tools_of_mcp_servers_are_locked_and_checked(
    place: Path, check: Check, holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(shop.LEDGER, str(place / "effects"))
    program = f"command: {sys.executable}, args: [{shop.__file__}], envFrom: [{shop.LEDGER}]"
    (place / "servers.yaml").write_text(f"shop: {{{program}}}\n")
    agent = "model: {endpoint: m}\ntools: ['mcp:shop/*']\n"
    (place / "agents" / "shop.yaml").write_text(agent)
    lock, options = place / "mcp.lock.json", ("--catalog", ".", "--servers", "servers.yaml")

    locked = await holdfast("mcp", "lock", *options)
    assert (locked.code, locked.err) == (0, "")
    *new, last = locked.out.splitlines()
    assert "new: shop/refund: Refund an order." in new
    assert last == f"mcp.lock.json: {len(new)} tools locked"
    assert len(lock.read_text().splitlines()) == len(new) + 2
    assert (await holdfast("mcp", "lock", *options)).out == f"{last}\n"

    digests = json.loads(lock.read_text())
    del digests["shop/crash"]
    lock.write_text(json.dumps(digests))
    warnings = await asyncio.to_thread(check, *ALL, *options[2:])
    assert warnings.code == 0
    assert "mcp.lock.json: MCP server `shop`: tool `crash` is not locked; look at" in warnings.out
    lock.write_text(json.dumps(digests | {"shop/refund": digests["shop/refund"] | {"digest": ""}}))
    changed = await asyncio.to_thread(check, *ALL, *options[2:])
    assert "tool `refund` has changed since it was locked; look at it" in changed.err
    lock.write_text(json.dumps(digests))

    far = f"shop: {{url: 'http://{NO_SERVER}/x', principalTokens: /run/tokens}}\n"
    (place / "servers.yaml").write_text(far)
    offline = await asyncio.to_thread(check, *ALL, *options[2:])
    assert (offline.code, offline.err) == (0, "")
    assert "; of its tools, only the names are checked, by the lock\n" in offline.out
    assert (
        "MCP server `shop`: `principalTokens`, and no principal of a run is verified" in offline.out
    )
    (place / "agents" / "shop.yaml").write_text(agent.replace("*", "crash"))
    unknown = await asyncio.to_thread(check, *ALL, *options[2:])
    assert "shop.yaml:2: `tools[0]`: no tool `shop/crash` is locked; correct" in unknown.err
    failed = await holdfast("mcp", "lock", *options)
    assert (failed.code, failed.out) == (2, "")
    assert failed.err.endswith("; nothing was locked\n")
