"""`holdfast evals`: suites that are run against their answers, and cases from recorded runs."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.evals.suites import add_case, load_suites
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.validation.problems import FixableError
from tests.support.backend import SIDE_BY_SIDE, TOOLS, Launch
from tests.support.command import CommandOutput, Holdfast
from tests.support.model_server import Answer, call
from tests.workflows.commands.test_child_workflows import agents

pytestmark = pytest.mark.usefixtures("client")

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
    [suite] = ElementTree.parse(junit).getroot()
    assert [case.get("name") for case in suite if case.find("failure") is not None] == [
        "unanswered"
    ]

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


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("agent: desk\ncases: []\n", "2: `cases`: `[]` does not fit; write at least 1"),
        (
            "agent: desk\ncases:\n  - {name: a}\n  - {name: a}\n",
            "1: two cases have the name `a`; rename one of them",
        ),
        (
            "agent: desk\ncases:\n  - {name: a, expect: {output: {equal: 1}}}\n",
            "3: unknown field `equal`; did you mean `equals`?",
        ),
        (
            "agent: desk\ncases:\n  - {name: a, decisions: [{tool: t, decision: edit}]}\n",
            "3: `cases[0].decisions[0]`: `edit` belongs to `decision: edit`; write both, or"
            " neither",
        ),
        (
            "agent: desk\ncases:\n  - {name: a, answers: [{tool: t, result: 1, error: x}]}\n",
            "3: `cases[0].answers[0]`: it has a `result` and an `error`; leave one of them out",
        ),
    ],
)
def test_what_is_wrong_with_a_suite_is_named(tmp_path: Path, written: str, problem: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(written)
    with pytest.raises(LoadError) as raised:
        load_suites([path])
    assert [str(each) for each in raised.value.problems] == [f"{path}:{problem}"]


async def test_a_recorded_run_becomes_a_case(
    launch: Launch, holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "sk-7Hd82kLq9ZpW")
    folder = agents(tmp_path / "catalog", helper={"tools": ["look_up", "pay"]})
    looks = Answer(calls=[call("look_up", id=7), call("pay", amount=5), call("pay", amount=6)])
    back = await launch([looks, Answer("done")], catalog=folder, **SIDE_BY_SIDE)
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
    case = suite.cases[0]
    assert case.request == {"input": "Find [secret]."}
    assert [(each.tool, each.arguments) for each in case.answers] == [
        ("look_up", {"id": 7}),
        ("pay", {"amount": 6}),
    ]
    [denied] = case.decisions
    assert (denied.arguments, denied.decision, denied.reason) == ({"amount": 5}, "deny", "too much")
    assert case.expect.output.equals == "done"

    endpoints = ("--endpoints", str(tmp_path / f"{back.task_queue}.yaml"))
    named = ("--catalog", str(folder), "--tools", str(TOOLS), *endpoints)
    ran = await holdfast("evals", "run", str(path), *named)
    assert ran.code == 0, ran.out + ran.err
