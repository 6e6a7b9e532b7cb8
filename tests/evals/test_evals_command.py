"""`holdfast evals`: suites that are run against their answers, and cases from recorded runs."""

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from junitparser import JUnitXml

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.evals.datasets import dataset
from holdfast.evals.suites import add_case, load_suites
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.validation.problems import FixableError
from tests.activities.mcp.servers import shop
from tests.support.backend import SIDE_BY_SIDE, TOOLS, Launch
from tests.support.command import CommandOutput, Holdfast
from tests.support.model_server import Answer, call, serve
from tests.support.tools import read
from tests.workflows.commands.test_child_workflows import agents

pytestmark = pytest.mark.usefixtures("client")

SERVED = {"args": [shop.__file__], "envFrom": [shop.LEDGER]}
REFUND = {"order": "7", "amount": 20}
FILES = {
    "desk/agents/desk.md": """---
model: {endpoint: demo, name: script}
tools: [refund]
---
You answer customers.
""",
    "desk/tools/refund.yaml": """description: Refund an order.
properties: {order: {type: string}, amount: {type: number}}
_activity: {type: refund, taskQueue: payments}
_sideEffects: true
""",
    "endpoints.yaml": "demo: {provider: script, file: script.yaml}",
    "script.yaml": """- calls: [{tool: refund, arguments: {order: "7", amount: 20}}]
- text: I refunded order 7.
""",
    "other.yaml": "- text: I cannot help.\n",
    "evals/desk.yaml": """agent: desk
repeat: 2
cases:
  - name: small
    request: {input: Order 7 is broken.}
    answers: [{tool: refund, arguments: {order: "7", amount: 20}, result: {paid: true}}]
    expect:
      output: {contains: [refunded]}
      calls: {exactly: [refund]}
      approvals: [refund]
  - name: denied
    request: {input: Order 7 is broken.}
    decisions: [{tool: refund, arguments: {order: "7", amount: 20}, decision: deny}]
    expect: {calls: {never: [refund]}, approvals: [refund]}
  - name: unanswered
    request: {input: Order 7 is broken.}
""",
}


class Suites:
    """A folder with an agent and its suites; `run` has them run."""

    def __init__(self, folder: Path, holdfast: Holdfast) -> None:
        self.folder, self._holdfast = folder, holdfast
        for name, text in FILES.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    async def run(self, *words: str, suite: str = "evals") -> CommandOutput:
        named = ["--catalog", str(self.folder / "desk")]
        named += ["--endpoints", str(self.folder / "endpoints.yaml")]
        return await self._holdfast("evals", "run", str(self.folder / suite), *named, *words)


@pytest.fixture
def suites(tmp_path: Path, holdfast: Holdfast) -> Suites:
    return Suites(tmp_path, holdfast)


async def test_a_suite_fails_by_the_cases_that_are_not_as_expected(suites: Suites) -> None:
    baseline, junit = str(suites.folder / "rates.json"), suites.folder / "junit.xml"
    ran = await suites.run("--write-baseline", baseline, "--junit", str(junit))
    assert ran.code == 1, ran.err
    rows = {line.split()[0]: line.split()[1] for line in ran.out.splitlines()[1:]}
    assert rows == {"desk/small": "2/2", "desk/denied": "2/2", "desk/unanswered": "0/2"}
    assert "the case has no answer for turn 1, a decision on refund" in ran.out
    assert "holdfast: desk/unanswered: 0% of its runs passed, not 100%" in ran.err
    [suite] = JUnitXml.fromfile(str(junit))
    assert [case.name for case in suite if case.is_failure] == ["unanswered"]

    none = await suites.run(suite="none.yaml")
    assert (none.code, none.err.endswith("none.yaml: there is no such file; check the path\n")) == (
        2,
        True,
    )

    # What failed before is no regression; a model that has become worse is.
    again = await suites.run("--baseline", baseline)
    assert again.code == 0, again.err
    (suites.folder / "script.yaml").write_text(FILES["other.yaml"], encoding="utf-8")
    worse = await suites.run("--baseline", baseline)
    assert worse.code == 1
    assert "holdfast: desk/small: 0% of its runs passed, and 100% before" in worse.err


ASKS = {
    "desk/tools/ask_person.yaml": "{_person: true, properties: {question: {type: string}}}",
    "script.yaml": """- calls:
    - {tool: refund, arguments: {order: "7", amount: 20}}
    - {tool: ask_person, arguments: {question: "Why?"}}
- text: Nobody knows.
""",
    "evals/desk.yaml": """agent: desk
cases:
  - name: broken
    messages: [7]
  - name: decided
    request: {input: Order 7 is broken.}
    decisions:
      - {tool: refund, arguments: {order: "7", amount: 20}, decision: respond}
      - {tool: ask_person, arguments: {question: "Why?"}, decision: deny}
    expect: {calls: {exactly: []}, approvals: [refund, ask_person]}
""",
}


async def test_any_call_is_answered_or_denied_and_an_error_fails_one_case(suites: Suites) -> None:
    for name, text in ASKS.items():
        (suites.folder / name).write_text(text)
    agent = suites.folder / "desk/agents/desk.md"
    agent.write_text(agent.read_text().replace("[refund]", "[refund, ask_person]"))
    ran = await suites.run()
    rows = [line.split(maxsplit=3) for line in ran.out.splitlines()[1:]]
    assert [row[:2] for row in rows] == [["desk/broken", "0/1"], ["desk/decided", "1/1"]], ran.out
    assert "holdfast: ValidationError: " in rows[0][3]


async def test_servers_list_the_tools_of_a_suite_and_the_case_answers(
    suites: Suites, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(shop.LEDGER, str(suites.folder / "effects"))
    files = {
        "desk/agents/desk.md": FILES["desk/agents/desk.md"].replace("refund", "mcp:shop/refund"),
        "script.yaml": "[{calls: [{tool: shop_refund, arguments: {order_id: A1}}]}, {text: Done.}]",
        "servers.yaml": yaml.safe_dump({"shop": {"command": sys.executable, **SERVED}}),
        "evals/desk.yaml": """agent: desk
cases:
  - name: served
    request: {input: Order A1 is broken.}
    answers: [{tool: shop_refund, arguments: {order_id: A1}, result: refunded}]
    expect: {calls: {exactly: [shop_refund]}, approvals: [shop_refund]}
""",
    }
    for name, text in files.items():
        (suites.folder / name).write_text(text)
    ran = await suites.run("--servers", str(suites.folder / "servers.yaml"))
    assert ran.code == 0, ran.out + ran.err
    assert shop.effects() == []


def refunds(turn: int, body: dict[str, Any]) -> Answer:
    """A model that refunds, but for two orders where its prompt has photos in it."""
    prompt, asked = (each["content"] for each in body["messages"][:2])
    order = asked.split()[1]
    if "photo" in prompt and order in ("2", "5"):
        return Answer("Send a photo.")
    refund = call("refund", order=order, amount=20)
    return Answer(calls=[refund]) if turn == 1 else Answer(f"I refunded order {order}.")


async def test_a_changed_prompt_that_breaks_two_of_six_cases_is_found(suites: Suites) -> None:
    cases = [
        {
            "name": f"order-{n}",
            "request": {"input": f"Order {n} is broken."},
            "answers": [{"tool": "refund", "arguments": {"order": str(n), "amount": 20}}],
            "expect": {"output": {"contains": ["refunded"]}, "calls": {"exactly": ["refund"]}},
        }
        for n in range(1, 7)
    ]
    suite, agent = suites.folder / "evals/desk.yaml", suites.folder / "desk/agents/desk.md"
    suite.write_text(yaml.safe_dump({"agent": "desk", "cases": cases}))
    rates, junit = str(suites.folder / "rates.json"), str(suites.folder / "junit.xml")
    with serve(refunds) as model:
        endpoints = suites.folder / "endpoints.yaml"
        endpoints.write_text(f"demo: {{provider: openai, baseUrl: '{model.url}'}}")
        before = await suites.run("--write-baseline", rates)
        agent.write_text(agent.read_text() + "Ask for a photo first.\n")
        after = await suites.run("--baseline", rates, "--junit", junit)
    assert (before.code, after.code) == (0, 1), before.err
    assert after.err.splitlines() == [
        f"holdfast: desk/order-{n}: 0% of its runs passed, and 100% before" for n in (2, 5)
    ]
    [read] = JUnitXml.fromfile(junit)
    failed = [case for case in read if case.is_failure]
    assert (read.name, read.tests, read.failures, len(list(read))) == ("desk", 6, 2, 6)
    assert [case.name for case in failed] == ["order-2", "order-5"]
    assert "its output is" not in failed[0].result[0].text
    assert "it did not call refund" in failed[0].result[0].text


CHECKS = """
from dataclasses import dataclass

from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext

print("imported")


@dataclass
class Short(Evaluator):
    most: int

    def evaluate(self, ctx: EvaluatorContext) -> EvaluationReason:
        size = len(ctx.output)
        return EvaluationReason(size <= self.most, f"it has {size} characters")


@dataclass
class Uses(Evaluator):
    async def evaluate(self, ctx: EvaluatorContext) -> dict:
        approvals, calls = (ctx.attributes[name] for name in ("approvals", "calls"))
        return {"asks": approvals == [each.tool for each in calls], "turns": ctx.metrics["turns"]}


class Score(Evaluator):
    def evaluate(self, ctx: EvaluatorContext) -> float:
        return 0.5


class Broken(Evaluator):
    def evaluate(self, ctx: EvaluatorContext) -> bool:
        raise ValueError("no")
"""


def with_evaluator(cls: str, **arguments: Any) -> dict[str, Any]:
    """A case whose run has the output `I refunded order 7.`"""
    return {
        "name": cls.partition(":")[2].lower(),
        "request": {"input": "Order 7 is broken."},
        "answers": [{"tool": "refund", "arguments": REFUND, "result": {"paid": True}}],
        "expect": {
            "output": {"equals": "I refunded order 7."},
            "evaluators": [{"evaluator": cls, "arguments": arguments}],
        },
    }


async def test_evaluators_run_only_where_their_code_is_allowed(
    suites: Suites, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(suites.folder)
    Path("checks.py").write_text(CHECKS)
    cases = [
        with_evaluator("pydantic_evals.evaluators:EqualsExpected"),
        with_evaluator("checks.py:Uses"),
        with_evaluator("checks.py:Short", most=5),
        with_evaluator("checks.py:Score"),
        with_evaluator("checks.py:Broken"),
    ]
    path = suites.folder / "evals/desk.yaml"
    path.write_text(yaml.safe_dump({"agent": "desk", "cases": cases}))

    refused = await suites.run()
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        "holdfast: desk/equalsexpected names the evaluator"
        " pydantic_evals.evaluators:EqualsExpected, which is code; read it, and allow it with"
        " --allow-code\n"
    )

    ran = await suites.run("--allow-code")
    assert ran.code == 1, ran.err
    reasons = {
        line.split()[0]: line.split("unknown")[1].strip() for line in ran.out.splitlines()[2:]
    }
    assert reasons == {
        "desk/equalsexpected": "",
        "desk/uses": "",
        "desk/short": "Short: it has 19 characters",
        "desk/score": "Score: 0.5 is neither true nor false",
        "desk/broken": "Broken: ValueError: no",
    }


@pytest.mark.parametrize(
    ("place", "arguments", "problem"),
    [
        ("checks.py:None", {}, "checks.py: it has no `None`"),
        ("gone.py:Short", {}, "gone.py: there is no such file"),
        ("checks.py:Short", {"least": 1}, "unexpected keyword argument 'least'"),
        ("pathlib:Path", {}, "pathlib:Path: it is `PosixPath`, and no `Evaluator`"),
    ],
)
def test_an_evaluator_that_does_not_load_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    arguments: dict[str, Any],
    problem: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("checks.py").write_text(CHECKS)
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump({"agent": "a", "cases": [with_evaluator(place, **arguments)]}))
    with pytest.raises(LoadError) as raised:
        dataset(path, allow_code=True)
    assert problem in str(raised.value)


async def test_a_suite_is_a_dataset_of_pydantic_evals(
    suites: Suites, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = suites.folder / "evals/desk.yaml"
    found = dataset(desk)
    assert (found.name, [each.name for each in found.cases]) == (
        "desk",
        ["small", "denied", "unanswered"],
    )
    small = found.cases[0]
    assert small.inputs == {"input": "Order 7 is broken."}
    assert small.metadata == {
        "answers": [{"tool": "refund", "arguments": REFUND, "result": {"paid": True}}],
        "expect": {
            "output": {"contains": ["refunded"]},
            "calls": {"exactly": ["refund"]},
            "approvals": ["refund"],
        },
    }
    case = with_evaluator("pydantic_evals.evaluators:EqualsExpected")
    desk.write_text(yaml.safe_dump({"agent": "desk", "cases": [{**case, "name": "same"}]}))
    with pytest.raises(FixableError, match="allow it with --allow-code"):
        dataset(desk)
    found = dataset(desk, allow_code=True)
    report = await found.evaluate(lambda inputs: "I refunded order 7.", progress=False)
    assert [each.value for each in report.cases[0].assertions.values()] == [True]


async def test_a_rubric_is_judged_by_a_model(suites: Suites) -> None:
    (suites.folder / "script.yaml").write_text(
        '- text: Sorry.\n- text: \'{"reason": "it is rude", "passes": false}\'\n'
    )
    (suites.folder / "endpoints.yaml").write_text(
        "demo: {provider: script, file: script.yaml}\n"
        "strict: {provider: script, file: judge.yaml}\n"
    )
    (suites.folder / "judge.yaml").write_text(
        '- text: \'{"reason": "it is rude", "passes": false}\'\n'
    )
    (suites.folder / "evals/desk.yaml").write_text(
        "agent: desk\njudge: {endpoint: strict}\ncases:\n"
        "  - {name: polite, request: {input: Hi}, expect: {output: {judge: It is polite.}}}\n"
    )
    ran = await suites.run()
    assert ran.code == 1
    assert "the judge: it is rude" in ran.out


async def test_a_recorded_run_becomes_a_case(
    launch: Launch, holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "sk-7Hd82kLq9ZpW")
    folder = agents(tmp_path / "catalog", helper={"tools": ["look_up", "pay", "raises"]})
    looks = Answer(calls=[call("look_up", id=7), call("pay", amount=5), call("pay", amount=6)])
    fails = Answer(calls=[call("raises")])
    back = await launch([looks, fails, Answer("done")], catalog=folder, **SIDE_BY_SIDE)
    client = HoldfastClient(back.client, back.task_queue)
    run = await client.start("helper", "Find sk-7Hd82kLq9ZpW.")
    requests = run.approval_requests()
    decided = [await anext(requests) for _ in range(2)]
    await decided[0].deny(reason="too much", by="ada")
    await decided[1].approve(by="ada")
    await run.result()

    path = tmp_path / "suite.yaml"
    for name in ("first", "second"):
        words = ("add", run.id, "--to", str(path), "--name", name, "--expect", "output")
        added = await holdfast("evals", *words)
        assert added.code == 0, added.err
    suite = load_suites([path])["suite"]
    assert (suite.agent, [each.name for each in suite.cases]) == ("helper", ["first", "second"])
    with pytest.raises(FixableError, match="is a suite of the agent helper"):
        add_case(path, "other", {"name": "third"})
    (tmp_path / "file").write_text("")
    with pytest.raises(FixableError, match="cannot be written: File exists"):
        add_case(tmp_path / "file/suite.yaml", "helper", {"name": "third"})
    case = suite.cases[0]
    assert case.request == {"input": "Find [secret]."}
    assert [(each.tool, each.arguments, each.error) for each in case.answers] == [
        ("look_up", {"id": 7}, None),
        ("pay", {"amount": 6}, None),
        ("raises", {}, "the stock is empty"),
    ]
    [denied] = case.decisions
    assert (denied.arguments, denied.decision, denied.reason) == ({"amount": 5}, "deny", "too much")
    assert case.expect.output.equals == "done"

    endpoints = ("--endpoints", str(tmp_path / f"{back.task_queue}.yaml"))
    named = ("--catalog", str(folder), "--tools", str(TOOLS), *endpoints)
    ran = await holdfast("evals", "run", str(path), *named)
    assert ran.code == 0, ran.out + ran.err


async def test_a_case_of_a_run_with_hooks_has_their_answers(
    launch: Launch, holdfast: Holdfast, tmp_path: Path
) -> None:
    hooks = {"_prepare": "tidy", "_before": "guard", "_after": "review"}
    folder = agents(tmp_path / "catalog", helper={"tools": ["look_up"], **hooks})
    calls = Answer(calls=[call("look_up", n=3), call("look_up", id=13)])
    back = await launch([calls, Answer("done")], catalog=folder, **SIDE_BY_SIDE)
    run = await HoldfastClient(back.client, back.task_queue).start("helper", "go")
    await run.result()
    before, path = read(), tmp_path / "suite.yaml"
    added = await holdfast("evals", "add", run.id, "--to", str(path), "--expect", "calls")
    assert added.code == 0, added.err
    [case] = load_suites([path])["suite"].cases
    assert [each.arguments for each in case.answers] == [{"id": 3}]
    assert {(each.hook, each.arguments[0].get("n")) for each in case.hooks} >= {("prepare", 3)}  # type: ignore[union-attr]

    endpoints = ("--endpoints", str(tmp_path / f"{back.task_queue}.yaml"))
    ran = await holdfast(
        *("evals", "run", str(path), "--catalog", str(folder), "--tools", str(TOOLS)), *endpoints
    )
    assert ran.code == 0, ran.out + ran.err
    assert read() == before
