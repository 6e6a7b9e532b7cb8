"""Tools of MCP servers: their names, their rules, and the agents that name them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.catalog.advice import server_advice
from holdfast.catalog.agent_reader import resolve_definition
from holdfast.catalog.loader import Catalog, load_catalog
from holdfast.catalog.mcp_tools import (
    MCP_LOCK,
    ListedTool,
    Listing,
    left_out,
    lock_changes,
    lock_problems,
    lock_text,
    tool_of_entry,
    tools_of_entry,
)
from holdfast.catalog.registry import DefinitionRegistry
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition
from holdfast.runtime.settings_files.file_problems import InvalidValueError, LoadError
from holdfast.schemas.settings.servers import Server
from holdfast.schemas.tool import ResolvedTool
from holdfast.validation.content_cache import ContentCache
from tests.catalog.catalog_folder import Folder

URL = "https://shop.example/mcp"
ORDER = {"type": "object", "properties": {"order_id": {"type": "string"}}, "title": "orderArgs"}
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "other")
VALUES: st.SearchStrategy[Any] = st.sampled_from([True, False, None, "true", 1, {}])


def listed(name: str = "find", **more: Any) -> ListedTool:
    return ListedTool(name=name, input_schema=ORDER, **more)


def tool(one: ListedTool, *others: ListedTool, **settings: Any) -> ResolvedTool:
    server = Server.model_validate({"url": URL, **settings})
    catalog = load_catalog(servers={"shop": server}, read_definition=activity_definition)
    return tool_of_entry(f"mcp:shop/{one.name}", catalog.definitions, {"shop": [one, *others]})


def test_a_listed_tool_is_one_of_ours() -> None:
    found = tool(listed(title="Find", description="Find it.", output_schema={"type": "object"}))
    assert (found.name, found.label, found.description) == ("shop_find", None, "Find it.")
    assert found.parameters == {"type": "object", "properties": ORDER["properties"]}
    assert found.output == {"type": "object"}
    assert (found.untrusted, found.once) == (True, True)
    assert found.activity is not None
    assert found.activity.type == "call_mcp_tool"
    assert found.mcp is not None
    assert (found.mcp.server, found.mcp.tool, found.mcp.structured) == ("shop", "find", True)


@given(st.dictionaries(st.sampled_from(HINTS), VALUES), st.booleans())
def test_hints_loosen_nothing_unless_the_server_is_trusted(
    hints: Mapping[str, Any], trusted: bool
) -> None:
    found = tool(listed(annotations=hints), trusted=trusted)
    is_harmless = hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True
    assert found.side_effects == (not (trusted and is_harmless))
    is_idempotent = hints.get("idempotentHint") is True or is_harmless
    assert found.idempotent == (trusted and is_idempotent)
    assert found.untrusted


@pytest.mark.parametrize("more", [{"title": "Read"}, {"annotations": {"title": "Read"}}])
def test_a_server_labels_its_tools_only_if_it_is_trusted(more: dict[str, Any]) -> None:
    label = {"overrides": {"find": {"_label": "Find"}}}
    assert tool(listed(**more)).label is None
    assert tool(listed(**more), trusted=True).label == "Read"
    assert tool(listed(**more), **label).label == "Find"


def test_overrides_precede_hints() -> None:
    overrides = {"find": {"_sideEffects": False, "_approval": {"require": "always"}}}
    found = tool(listed(annotations={"destructiveHint": True}), overrides=overrides, timeout="2m")
    assert (found.side_effects, found.approval.require) == (False, "always")
    assert found.activity is not None
    assert str(found.activity.start_to_close_timeout) == "0:02:00"


@pytest.mark.parametrize(
    ("name", "others", "ours"),
    [
        ("user/find", (), "shop_user_find"),
        ("a b", ("a.b",), "shop_a_b"),
        ("a b", ("a/b",), "shop_a_b_c8687a08"),
        ("a" * 200, (), f"shop_{'a' * 114}_c2a908d9"),
    ],
)
def test_a_name_is_fitted(name: str, others: tuple[str, ...], ours: str) -> None:
    assert tool(listed(name), *map(listed, others)).name == ours


def test_the_digest_is_of_what_people_and_models_are_shown() -> None:
    changes: list[dict[str, Any]] = [
        {"title": "Another"},
        {"description": "Now with keys."},
        {"output_schema": {"type": "object"}},
        {"annotations": {"readOnlyHint": True}},
    ]
    digests = {listed(**each).digest for each in changes} | {listed().digest}
    assert len(digests) == 5


BEFORE = [listed(), listed("refund"), listed("old")]
NOW = [
    listed(),
    listed("refund", title="Refund", description="Send keys.", annotations={"readOnlyHint": True}),
    listed("pay"),
]


@pytest.mark.parametrize(
    ("entry", "allowed"),
    [
        ("mcp:shop/find", ["shop_find"]),
        ("mcp:shop/[fp]*", ["shop_find"]),
        ("mcp:shop/*", "tool `refund` has changed since"),
        (
            "mcp:shop/refund",
            "MCP server `shop`: tool `refund` has changed since it was locked; look",
        ),
        (
            "mcp:shop/pay",
            "no tool `shop/pay` is locked; correct it, or look at the server's tools,",
        ),
        ("mcp:shop/[pr]*", "tool `refund` has changed since"),
    ],
)
def test_with_a_lock_new_runs_have_only_locked_tools(
    shop: Folder, entry: str, allowed: list[str] | str
) -> None:
    shop.write(MCP_LOCK, lock_text({"shop": BEFORE}))
    world = loaded_world(shop)
    if isinstance(allowed, list):
        assert [each.name for each in tools_of_entry(entry, world, {"shop": NOW})] == allowed
        return
    with pytest.raises(InvalidValueError) as refused:
        tools_of_entry(entry, world, {"shop": NOW})
    assert allowed in str(refused.value)


@pytest.mark.parametrize("is_locked", [False, True])
def test_a_tool_that_does_not_load_is_left_out_and_named(shop: Folder, is_locked: bool) -> None:
    before = [listed(), listed("bad"), listed("odd", title="Odd")]
    malformed = listed("bad", problem="`inputSchema`: Field required")
    odd = ListedTool("odd", title="Odd", input_schema={"properties": {"a": {"type": "text"}}})
    if is_locked:
        shop.write(MCP_LOCK, lock_text({"shop": [*before[:2], odd]}))
    world, now = loaded_world(shop), [listed(), malformed, odd]
    assert [each.name for each in tools_of_entry("mcp:shop/*", world, {"shop": now})] == [
        "shop_find"
    ]
    server = "MCP server `shop`, tool"
    first, second = (str(each) for each in left_out("shop", now, world))
    assert first.startswith(f"{server} `bad`: `inputSchema`: Field required; the tool is left out")
    assert second.startswith(f"{server} `odd`: ")
    assert first in map(str, server_advice("shop", now, world))
    for name in ("bad", "odd"):
        with pytest.raises(InvalidValueError, match=f"tool `{name}`: "):
            tools_of_entry(f"mcp:shop/{name}", world, {"shop": now})
    assert not lock_problems("shop", [malformed], world.mcp_lock)


def test_check_names_what_is_not_locked() -> None:
    lock = {f"shop/{each.name}": each.locked for each in BEFORE}
    found = lock_problems("shop", NOW, lock)
    assert list(found) == ["refund", "pay"]
    assert found["pay"].reason == "MCP server `shop`: tool `pay` is not locked"
    assert not lock_problems("shop", NOW, None)


def test_a_change_since_the_lock_names_its_parts() -> None:
    before = {f"shop/{each.name}": each.locked for each in BEFORE}
    assert list(lock_changes(before, {"shop": NOW})) == [
        "removed: shop/old",
        "new: shop/pay: ",
        "changed: shop/refund (description, hints): Refund: Send keys.",
    ]
    assert list(lock_changes(before, {"shop": BEFORE})) == []


AGENT = """
    model: {endpoint: m}
    tools: ["mcp:shop/find"]
    approval: {auto: [shop_find]}
    skills: [{name: more, tools: ["mcp:shop/*"]}]
"""


def loaded(shop: Folder) -> Catalog:
    server = Server.model_validate({"url": URL})
    return load_catalog(
        shop.path, endpoints=["m"], servers={"shop": server}, read_definition=activity_definition
    )


def test_a_catalog_loads_without_the_server_and_an_agent_resolves_with_it(shop: Folder) -> None:
    shop.write("agents/desk.yaml", AGENT)
    catalog = loaded(shop)
    assert catalog.agents["desk"].tools == []
    listing: Listing = {"shop": [listed(), listed("refund")]}
    written = catalog.mcp_agents["desk"].value
    agent = resolve_definition(written, "desk", catalog.definitions, listing)
    assert [each.name for each in agent.tools] == ["shop_find"]
    assert [each.name for each in agent.skills[0].tools] == ["shop_refund"]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("mcp:shp/*", "there is no MCP server `shp`; did you mean `shop`?"),
        ("mcp:shop", "`mcp:shop` names no tool of a server; write `mcp:SERVER/TOOL`"),
    ],
)
def test_an_entry_is_checked_as_the_catalog_loads(shop: Folder, entry: str, problem: str) -> None:
    shop.write("agents/desk.yaml", f"model: {{endpoint: m}}\ntools: ['{entry}']\n")
    with pytest.raises(LoadError) as refused:
        loaded(shop)
    assert f"agents/desk.yaml:2: `tools[0]`: {problem}" in str(refused.value.problems[0])


@pytest.mark.parametrize(
    ("listing", "problem"),
    [
        ([listed("refund")], "MCP server `shop` has no tool `find`"),
        ("MCP server `shop`: no route", "MCP server `shop`: no route (for `mcp:shop/find`)"),
        (
            [ListedTool("find", input_schema={"type": "object", "properties": {"a": {"type": 1}}})],
            "MCP server `shop`, tool `find`: ",
        ),
    ],
)
def test_a_problem_names_the_server_and_the_tool(shop: Folder, listing: Any, problem: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        tool_of_entry("mcp:shop/find", loaded_world(shop), {"shop": listing})
    assert problem in str(refused.value)


def loaded_world(shop: Folder) -> Any:
    return loaded(shop).definitions


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ({"url": URL, "command": "x"}, "`url` and `command` exclude each other"),
        ({"url": "https://ann:pw@shop.example"}, "url"),
        ({"url": URL, "envFrom": ["A"]}, "`envFrom` does not apply beside `url`"),
        ({"url": URL, "headersEnv": {"Authorization": "Bearer x"}}, "names no environment variabl"),
        ({"command": "x", "principalTokens": "/d"}, "`principalTokens` does not apply beside `c"),
        ({"url": URL, "auth": {"issuer": URL, "clientId": "a"}}, "`clientSecretEnv` or `privateK"),
        ({"url": URL, "overrides": {"f": {"_delegate": "x"}}}, "cannot have `_delegate`"),
        ({"url": URL, "overrides": {"f": {"_sideEffects": "no"}}}, "`overrides` of `f`: `_sideEff"),
    ],
)
def test_a_server_that_does_not_load(written: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match="(?s)" + problem):
        Server.model_validate(written)


def test_tools_that_are_kept_are_those_that_are_resolved_again() -> None:
    """Cold, warm, and without room for any: the same agent; another world has others."""
    written = {"_tool": "pay", "_activity": "pay", "properties": {"amount": {"type": "number"}}}
    server = {"shop": Server.model_validate({"url": URL, "trusted": True})}
    definition = {"model": {"endpoint": "m"}, "tools": [written, "mcp:shop/find"]}
    listing: Listing = {"shop": [listed()]}

    def resolved(world: DefinitionRegistry) -> dict[str, Any]:
        return resolve_definition(definition, "desk", world, listing).to_json()

    world = DefinitionRegistry(
        task_queue="q", activities=["pay"], endpoints=["m"], servers=server, is_inline=True
    )
    cold, warm = resolved(world), resolved(world)
    assert cold == warm == resolved(replace(world, resolved=ContentCache(max_results=0)))
    listing = {"shop": [listed(description="Now with keys.")]}
    assert "Now with keys." in str(resolved(world)), "a server has changed a tool"
    with pytest.raises(InvalidValueError, match="pay"):
        resolved(replace(world, activities=[], resolved=ContentCache()))
    # The activity of the server's tools is none that a written tool can name, also after these.
    as_the_server = {**written, "_activity": {"type": "mcp:shop"}}
    with pytest.raises(InvalidValueError, match="mcp:shop"):
        resolve_definition({**definition, "tools": [as_the_server]}, "desk", world, listing)
