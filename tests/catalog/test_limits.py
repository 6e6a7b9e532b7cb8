"""Patterns of tools, and what `limits.yaml` tightens and `check` reports of it."""

import json
from typing import Any

import pytest

from holdfast.catalog.loader import load_catalog
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition
from holdfast.schemas.agent import ResolvedAgent
from holdfast.schemas.settings.budgets import SharedBudget
from holdfast.schemas.settings.endpoints import Endpoint, Price
from holdfast.schemas.tool import ResolvedTool
from tests.catalog.catalog_folder import Folder

PAY = {"_activity": "charge", "_sideEffects": True}


@pytest.fixture
def orders(shop: Folder) -> Folder:
    """A shop with the tools `look_up`, `orders.find`, `orders.pay` and `stock.count`."""
    for name in ("orders.find", "stock.count"):
        shop.write(f"tools/{name}.json", json.dumps({"_activity": "look_up"}))
    shop.write("tools/orders.pay.json", json.dumps(PAY))
    return shop


def load(folder: Folder, **fields: Any) -> ResolvedAgent:
    """Load an agent with these fields."""
    folder.write("agents/a.json", json.dumps({"model": {"endpoint": "m"}, **fields}))
    return folder.load().agents["a"]


def limit(folder: Folder, **fields: Any) -> None:
    """Write `limits.yaml`."""
    folder.write("limits.yaml", json.dumps(fields))


def tool_of(agent: ResolvedAgent, name: str) -> ResolvedTool:
    """Return a tool of the agent itself."""
    return next(tool for tool in agent.tools if tool.name == name)


def test_a_pattern_has_the_tools_of_the_catalog_that_it_matches_each_once(orders: Folder) -> None:
    skill = {"name": "s", "tools": ["*.count", "orders.f*"]}
    own = {**PAY, "_tool": "orders.pay", "description": "Of its own."}
    agent = load(orders, tools=["orders.*", own, "orders.*d"], skills=[skill])
    assert [tool.name for tool in agent.tools] == ["orders.pay", "orders.find"]
    assert agent.tools[0].description == "Of its own."
    assert [tool.name for tool in agent.skills[0].tools] == ["stock.count"]


def test_a_pattern_without_a_match_does_not_load(orders: Folder) -> None:
    load(orders)
    orders.write("agents/a.yaml", 'model: {endpoint: m}\nname: b\ntools: ["order.*"]')
    assert orders.problem() == (
        "agents/a.yaml:3: `tools[0]`: no tool matches `order.*`; did you mean `orders.pay` or"
        " `orders.find`?"
    )


def test_a_catalog_may_have_limits_alone_for_the_tools_of_modules(shop: Folder) -> None:
    (shop.path / "tools").rmdir()
    limit(shop, approval={"require": "always"})
    assert shop.load().definitions.tools["look_up"].approval.require == "always"


def test_limits_tighten_what_an_agent_states_and_loosen_nothing(orders: Folder) -> None:
    limit(orders, concurrency=3, budget={"maxTurns": 8, "maxCalls": 50, "maxDuration": "2h"})
    agent = load(orders, concurrency=10, budget={"maxTurns": 20, "maxIterations": 5})
    assert agent.concurrency == 3
    assert agent.budget.to_json() == {
        "maxIterations": 5,
        "maxTurns": 8,
        "maxCalls": 32,
        "maxDuration": "2h",
        "maxDepth": 4,
    }
    assert load(orders, concurrency=2).concurrency == 2
    limit(orders, budget={"maxTurns": 8, "total": {"maxTurns": 90}})
    budget = load(orders, budget={"perMessage": {"maxTurns": 20}, "total": {"maxCalls": 9}}).budget
    assert budget.of_message().max_turns == 8
    assert budget.total
    assert budget.total.to_json() == {"maxTurns": 90, "maxCalls": 9}


@pytest.mark.parametrize(
    ("limit_", "stated", "runs"),
    [("10s", None, "10s"), ("10s", "5s", "5s"), ("10s", "1m", "10s"), ("2m", None, None)],
)
def test_a_tool_runs_no_longer_than_its_limit(
    shop: Folder, limit_: str, stated: str | None, runs: str | None
) -> None:
    own = {} if stated is None else {"startToCloseTimeout": stated}
    limit(shop, toolTimeout=limit_)
    agent = load(shop, tools=[{"_tool": "own", "_activity": {"type": "charge", **own}}])
    activity = tool_of(agent, "own").activity
    assert activity is not None
    assert activity.to_json().get("startToCloseTimeout") == runs


EXEMPTED: list[dict[str, Any]] = [
    {"approval": {"require": "never"}},
    {"approval": {"auto": ["orders.pay"]}},
    {"approval": {"when": {"required": ["amount"]}}},
    {"tools": [{**PAY, "_tool": "orders.pay", "_approval": {"require": "never"}}]},
    {"tools": [{**PAY, "_tool": "orders.pay", "_approval": {"when": False}}]},
]


@pytest.mark.parametrize("fields", EXEMPTED)
def test_a_limit_on_approvals_leaves_no_call_with_side_effects_out(
    orders: Folder, fields: dict[str, Any]
) -> None:
    limit(orders, approval={"require": "side_effects"})
    agent = load(orders, **{"tools": ["orders.*"], **fields})
    policy = tool_of(agent, "orders.pay").approval.over(agent.approval)
    assert (policy.require, policy.when in (None, True)) == ("side_effects", True)
    assert agent.approval.auto == []


def test_a_limit_on_approvals_holds_for_the_activity_of_a_skill(orders: Folder) -> None:
    limit(orders, approval={"require": "side_effects", "signed": True})
    skill = {"name": "look_up", "activity": "charge", "sideEffects": True}
    fields = {"tools": ["look_up"], "approval": {"require": "never", "auto": ["look_up"]}}
    agent = load(orders, skills=[skill], **fields)
    [kept] = agent.skills
    assert kept.rules is not None
    assert kept.rules.approval.to_json() == {"require": "side_effects", "signed": True}
    assert agent.approval.auto == []


def test_the_stricter_of_two_policies_is_kept_field_by_field(orders: Folder) -> None:
    limit(
        orders,
        approval={"timeout": "1d", "onTimeout": "deny", "quorum": 2, "notBy": "principal"},
    )
    own = {"timeout": "2h", "onTimeout": "approve", "quorum": 3}
    agent = load(orders, tools=[{**PAY, "_tool": "own", "_approval": own}, "orders.pay"])
    assert tool_of(agent, "own").approval.to_json() == {
        "timeout": "2h",
        "onTimeout": "deny",
        "quorum": 3,
        "notBy": "principal",
    }
    assert tool_of(agent, "orders.pay").approval.quorum == 2


def test_check_reports_what_limits_tighten(orders: Folder) -> None:
    limit(orders, budget={"maxTurns": 6}, approval={"require": "side_effects"}, toolTimeout="1m")
    load(orders, tools=["orders.pay"], budget={"maxTurns": 20}, approval={"auto": ["orders.pay"]})
    told = [str(each).replace(f"{orders.path}/", "") for each in orders.load().advice]
    assert told == [
        'agents/a.json:1: `limits.yaml` tightens `approval.auto` from ["orders.pay"] to [],'
        " `budget.maxTurns` from 20 to 6"
    ]


def test_check_reports_of_limits_what_they_change_alone(orders: Folder) -> None:
    """Advice on a limit is about the file of limits; what is not stated has its default."""
    limit(orders, approval={"quorum": 2, "timeout": "1d"}, toolTimeout="10s", concurrency=9)
    load(orders, tools=["orders.pay"], budget={"maxTurns": 9})
    told = [str(each).replace(f"{orders.path}/", "") for each in orders.load().advice]
    policy = '`approval.timeout` from "7d" to "1d", `approval.quorum` from 1 to 2'
    tool = f'`limits.yaml` tightens `activity.startToCloseTimeout` from "30s" to "10s", {policy}'
    of_tools = [each for each in told if tool in each]
    assert of_tools
    assert [each for each in told if each not in of_tools] == [
        "limits.yaml: `approval`: `quorum` without `signed`: a client can decide in any name; add"
        " `signed: true`",
        f"agents/a.json:1: `limits.yaml` tightens {policy}",
    ]


def test_a_file_of_limits_that_is_nearly_named_so_is_reported(shop: Folder) -> None:
    shop.write("limits.yml", "concurrency: 2")
    assert shop.problem() == "limits.yml: a file of this name is not read; call it `limits.yaml`"


def test_each_rule_is_tightened_and_what_no_rule_fits(shop: Folder) -> None:
    """And no rule exempts a call: its `when` chooses a policy."""
    small = {"properties": {"amount": {"maximum": 100}}, "required": ["amount"]}
    large = {"properties": {"amount": {"minimum": 100}}, "required": ["amount"]}
    listed = [{"when": small, "require": "never"}, {"when": large, "quorum": 3}]
    amount = {"amount": {"type": "number"}}
    shop.write("tools/pay.json", json.dumps({**PAY, "properties": amount, "_approval": listed}))
    limit(shop, approval={"require": "side_effects", "quorum": 2})
    pay = tool_of(load(shop, tools=["pay"]), "pay")
    assert [rule.require for rule in pay.approval_rules] == ["side_effects", None]
    assert [rule.quorum for rule in (*pay.approval_rules, pay.approval)] == [2, 3, 2]
    assert [rule.when for rule in pay.approval_rules] == [small, large]


def test_check_reports_which_budgets_an_agent_uses(shop: Folder) -> None:
    shop.write("budgets.yaml", "- {name: teams, per: team, window: day, maxCost: 20, maxRuns: 9}")
    shop.write("agents/a.yaml", "model: {endpoint: m}")
    own = SharedBudget(name="desk", per="all", window="week", max_calls={"pay": 3})
    price = Price(input=1, output=2, currency="EUR")
    served = {"m": Endpoint(provider="script", file="a.yaml", price=price)}
    shop.write("tools/pay.yaml", "_activity: {type: pay, taskQueue: shop}")
    read = activity_definition
    catalog = load_catalog(
        shop.path, endpoints=served, served=served, budgets=[own], read_definition=read
    )
    assert [each.currency for each in catalog.budgets] == ["EUR", "EUR"]
    assert [str(each).replace(f"{shop.path}/", "") for each in catalog.advice] == [
        "agents/a.yaml:1: its runs use the budgets `teams` (maxCost 20 EUR, maxRuns 9 for each team"
        " a day); `desk` (3 calls of `pay` for all runs a week)"
    ]


PERSON = {"_tool": "ask", "_person": True}
RULES = [{"when": {"required": ["a"]}, "require": "never"}, {"require": "never"}]


@pytest.mark.parametrize(
    ("agent", "waits"),
    [
        ({}, False),
        ({"tools": ["look_up"]}, False),
        ({"tools": ["look_up"], "approval": {"require": "always"}}, True),
        ({"tools": ["look_up"], "plan": "lazy"}, True),
        ({"tools": [{**PAY, "_tool": "own"}]}, True),
        ({"tools": [{**PAY, "_tool": "own", "_approval": {"require": "never"}}]}, True),
        ({"tools": [PERSON]}, True),
        ({"tools": [{"_tool": "read", "_activity": "look_up", "_approval": RULES}]}, True),
        ({"tools": [{"_tool": "other", "_delegate": "a"}]}, True),
        ({"skills": [{"name": "s", "tools": [PERSON]}]}, True),
        ({"budget": {"maxTurns": 3}, "onLimit": {"maxTurns": "ask"}}, True),
    ],
)
def test_a_schedule_states_its_overlap_policy_if_runs_can_wait(
    shop: Folder, agent: dict[str, Any], *, waits: bool
) -> None:
    shop.write("agents/a.json", json.dumps({"model": {"endpoint": "m"}, **agent}))
    text = "agent: a\ninput: go\ninterval: 1h\n"
    shop.write("schedules/daily.yaml", text)
    if waits:
        assert "`overlap` is missing, and a run of `a` can wait for a person" in shop.problem()
    shop.write("schedules/daily.yaml", text + ("overlap: AllowAll" if waits else ""))
    assert [*shop.load().schedules] == ["daily"]
    shop.write("schedules/daily.yaml", text + "approvals: deny")
    assert shop.load().schedules["daily"].request()["approvals"] == "deny"


def test_budgets_that_ask_make_runs_wait_and_two_schedules_have_two_names(shop: Folder) -> None:
    shop.write("agents/a.json", json.dumps({"model": {"endpoint": "m"}}))
    shop.write("schedules/daily.yaml", "agent: a\ninput: go\ninterval: 1h\n")
    shop.write("budgets.yaml", "- {name: b, per: all, window: day, maxRuns: 9, onLimit: ask}")
    assert "`overlap` is missing" in shop.problem()
    shop.write("budgets.yaml", "- {name: b, per: all, window: day, maxRuns: 9}")
    shop.write("schedules/more/daily.yaml", "agent: a\ninput: go\ninterval: 1h\n")
    assert shop.problem().startswith("schedules/more/daily.yaml:1: the file's name is that of")
    (shop.path / "schedules").rename(shop.path / "schedule")
    assert shop.problem() == "schedule: a folder of this name is not read; call it `schedules`"
