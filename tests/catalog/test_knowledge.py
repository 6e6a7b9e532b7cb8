"""Knowledge and memory of an agent: the tools that they become, and what does not load."""

import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.catalog.builtin_tools import MAX_KNOWLEDGE_BYTES, knowledge_tool, memory_tools
from holdfast.catalog.registry import DefinitionRegistry, ToolsByActivity
from holdfast.runtime.addresses import AddressPrefix
from holdfast.runtime.settings_files.file_problems import InvalidValueError
from holdfast.schemas.agent import Knowledge
from holdfast.schemas.base import Strict
from holdfast.schemas.internal.memory import MemoryOwner, MemoryRead, MemorySearch, MemoryWrite
from holdfast.schemas.settings.servers import Server
from holdfast.schemas.tool import ActivityBinding, KnowledgeSource, ResolvedTool
from tests.catalog.catalog_folder import Folder


def world(folder: Path | None = None, **more: Any) -> DefinitionRegistry:
    prefixes = [AddressPrefix.read("https://docs.acme.org/guide")]
    return DefinitionRegistry(task_queue="q", folder=folder, knowledge_urls=prefixes, **more)


def tool_of(written: Knowledge, world: DefinitionRegistry, *tools: ResolvedTool) -> ResolvedTool:
    return knowledge_tool(written, world, ToolsByActivity(tools, world))


def tool(folder: Path | None = None, **source: Any) -> ResolvedTool:
    return tool_of(Knowledge(name="handbook", **source), world(folder))


def refusal(folder: Path | None, inline: bool = False, **source: Any) -> str:
    with pytest.raises(InvalidValueError) as refused:
        tool_of(Knowledge(name="handbook", **source), world(folder, is_inline=inline))
    return str(refused.value)


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """A catalog's folder with a handbook in it, and a secret beside it."""
    inside = tmp_path / "catalog"
    (inside / "knowledge").mkdir(parents=True)
    (inside / "knowledge" / "handbook.md").write_text("Be kind.")
    (tmp_path / "secret.txt").write_text("s3cr3t")
    return inside


@pytest.mark.parametrize(
    ("source", "is_local"),
    [
        ({"text": "Be kind."}, True),
        ({"file": "knowledge/handbook.md"}, True),  # as seen from the catalog
        ({"url": "https://docs.acme.org/guide/x"}, False),
    ],
)
def test_a_source_of_the_worker_s_own_is_trusted_and_read_by_a_local_activity(
    catalog: Path, source: dict[str, Any], is_local: bool
) -> None:
    made = tool(catalog, description="How we work.", **source)
    assert (made.name, made.description) == ("handbook", "How we work.")
    assert made.knowledge is not None
    assert made.knowledge.to_json().items() >= source.items()
    assert made.activity is not None
    assert (bool(made.activity.local), not made.untrusted) == (is_local, is_local)
    assert not any((made.side_effects, made.latent))


def test_a_resource_of_a_server_is_untrusted_and_for_agents_of_the_catalog() -> None:
    servers = {"shop": Server(url="https://shop.example/mcp")}
    rules = Knowledge(name="rules", url="mcp:shop/shop://rules")
    made = tool_of(rules, world(servers=servers))
    assert made.activity is not None
    assert (made.untrusted, made.activity.local) == (True, True)
    with pytest.raises(InvalidValueError, match="there is no MCP server `shop`"):
        tool_of(rules, world())
    with pytest.raises(InvalidValueError, match="only an agent of the catalog can name a resource"):
        tool_of(rules, world(servers=servers, is_inline=True))


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("../secret.txt", "outside of the catalog's folder"),
        ("knowledge/../../secret.txt", "outside of the catalog's folder"),
        ("link.txt", "outside of the catalog's folder"),
        ("room/secret.txt", "outside of the catalog's folder"),
        ("/etc/passwd", "is absolute"),
        ("C:\\secret.txt", "is absolute"),
        ("\\\\host\\secret.txt", "is absolute"),
        ("knowledge", "this is a folder"),
        ("knowledge/handbok.md", "did you mean `knowledge/handbook.md`?"),
        ("pipe", "is no file"),
        ("latin", "not UTF-8"),
        ("empty", "is empty"),
        ("large", "are too many"),
        ("a\x00b", "is no path"),
        ("loop", "is no path"),
    ],
)
def test_a_file_that_is_not_the_catalogs_own_text_is_refused(
    catalog: Path, file: str, reason: str
) -> None:
    (catalog / "link.txt").symlink_to(catalog.parent / "secret.txt")
    (catalog / "room").symlink_to(catalog.parent)
    (catalog / "loop").symlink_to("loop")
    os.mkfifo(catalog / "pipe")
    (catalog / "latin").write_bytes("Grüße".encode("latin-1"))
    (catalog / "empty").write_text(" \n")
    (catalog / "large").write_text("x" * (MAX_KNOWLEDGE_BYTES + 1))
    said = refusal(catalog, file=file)
    assert said.startswith("`file`: ")
    assert reason in said
    assert "s3cr3t" not in said


def test_an_agent_in_a_request_names_no_files(catalog: Path) -> None:
    said = refusal(catalog, inline=True, file="knowledge/handbook.md")
    assert said.startswith("`file`: only an agent of the catalog can name a file; write its text")
    assert refusal(None, file="knowledge/handbook.md") == said


def test_an_agent_in_a_request_may_hold_texts_and_allowed_addresses() -> None:
    inline = world(is_inline=True)
    for written in (
        Knowledge(name="handbook", text="Be kind."),
        Knowledge(name="handbook", url="https://docs.acme.org/guide/x"),
    ):
        assert tool_of(written, inline).knowledge is not None


def test_an_address_that_is_not_allowed_is_refused_when_it_is_loaded() -> None:
    said = refusal(None, url="https://docs.acme.org/other")
    assert said.startswith("`url`: the worker does not allow `https://docs.acme.org/other`;")
    assert "--knowledge-url" in said


@pytest.mark.parametrize("text", ["", "é" * (MAX_KNOWLEDGE_BYTES // 2 + 1)])
def test_a_text_is_neither_empty_nor_too_large(text: str) -> None:
    assert refusal(None, text=text).startswith("`text`: ")


RATES = ActivityBinding(type="rates")


def by_activity(*tools: ResolvedTool) -> ResolvedTool:
    return tool_of(Knowledge(name="now", activity="rates"), world(activities=["rates"]), *tools)


def test_an_activity_has_the_rules_of_the_tool_that_runs_it() -> None:
    alone = by_activity()
    assert (alone.activity, alone.knowledge) == (RATES, KnowledgeSource(kind="activity"))
    assert (alone.untrusted, alone.requires) == (False, [])
    rules: dict[str, Any] = {"untrusted": True, "requires": ["rates:read"], "label": "Rates"}
    made = by_activity(
        ResolvedTool(name="rates", parameters={"properties": {}}, activity=RATES, **rules)
    )
    assert (made.name, made.label, made.untrusted) == ("now", None, True)
    assert made.requires == ["rates:read"]


@pytest.mark.parametrize(
    ("tools", "reason"),
    [
        (
            [{"side_effects": True}],
            "this runs the activity of `t0`, which has side effects; name an activity without any",
        ),
        (
            [{}, {}],
            "`t0`, `t1` run this activity; name an activity of one tool, whose rules hold, or of"
            " none",
        ),
        (
            [{"parameters": {"required": ["day"]}}],
            "`t0`, which this runs, needs `day`; name an activity that needs no arguments",
        ),
    ],
)
def test_an_activity_whose_rules_do_not_fit_is_no_knowledge(
    tools: list[dict[str, Any]], reason: str
) -> None:
    made = [
        ResolvedTool(name=f"t{n}", activity=RATES, **{"parameters": {}, **each})
        for n, each in enumerate(tools)
    ]
    with pytest.raises(InvalidValueError) as refused:
        by_activity(*made)
    assert str(refused.value) == f"`activity`: {reason}"


def test_any_knowledge_can_be_marked_as_untrusted() -> None:
    assert tool(text="Written by customers.", untrusted=True).untrusted


# Memory.


def test_memory_is_three_tools_and_what_is_read_is_not_trusted() -> None:
    made = {each.name: each for each in memory_tools("desk", world())}
    assert list(made) == ["memory_read", "memory_search", "memory_write"]
    assert [each.untrusted for each in made.values()] == [True, True, False]
    assert [each.memory_use for each in made.values()] == ["read", "read", "write"]
    assert not any(each.side_effects or each.latent for each in made.values())
    assert all(each.idempotent for each in made.values())
    assert {each.memory for each in made.values()} == {MemoryOwner(agent="desk")}


def test_an_agent_in_a_request_has_a_memory_apart() -> None:
    [own, *_] = memory_tools("desk", world(is_inline=True))
    assert own.memory == MemoryOwner(agent="desk", inline=True)


def test_the_model_is_offered_what_the_activities_take() -> None:
    taken: dict[str, type[Strict]] = {
        "memory_read": MemoryRead,
        "memory_search": MemorySearch,
        "memory_write": MemoryWrite,
    }
    for each in memory_tools("desk", world()):
        model = taken[each.name]
        fields = {field.alias or name for name, field in model.model_fields.items()}
        assert set(each.parameters["properties"]) == fields
        required = [name for name, field in model.model_fields.items() if field.is_required()]
        assert each.parameters.get("required", []) == required


# In a catalog.


def test_an_agent_of_the_catalog_has_its_knowledge_and_memory_as_tools(folder: Folder) -> None:
    folder.write("knowledge/returns.md", "Thirty days.")
    folder.write(
        "agents/d.yaml",
        """
        name: desk
        model: {endpoint: m}
        memory: true
        knowledge: [{name: returns, file: knowledge/returns.md}]
        skills: [{name: billing, knowledge: [{name: vat, text: Nineteen percent.}]}]
        """,
    )
    desk = folder.load().agents["desk"]
    names = [each.name for each in desk.tools]
    assert names == ["returns", "memory_read", "memory_search", "memory_write"]
    assert desk.tools[1].memory == MemoryOwner(agent="desk")
    assert [each.name for each in desk.skills[0].tools] == ["vat"]


def test_a_skill_has_the_memory_where_the_agent_has_none(folder: Folder) -> None:
    folder.write(
        "agents/desk.yaml",
        """
        model: {endpoint: m}
        skills: [{name: guests, memory: true}, {name: rooms}]
        """,
    )
    guests, rooms = folder.load().agents["desk"].skills
    assert {each.memory for each in guests.tools} == {MemoryOwner(agent="desk")}
    assert (len(guests.tools), rooms.tools) == (3, [])
