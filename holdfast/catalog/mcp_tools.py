"""Tools of MCP servers, as the tools that a run stores; their prompts, as instructions.

An agent names them by entries such as `mcp:shop/find_order` and `mcp:shop/*`. A server is not
requested while a catalog loads: an entry is then checked for its form and the server's name alone.
The tools are resolved when a run starts, from what the server lists at that time.

A server describes its own tools, so its hints count for nothing that loosens a rule, unless the
operator trusts it; the operator's overrides precede both. With a lock in the catalog, new runs have
only tools that are listed as they were when they were locked.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

from holdfast.catalog.registry import DefinitionRegistry
from holdfast.catalog.tool_reader import resolve_tool, resolve_tool_entry
from holdfast.runtime.settings_files.file_problems import FileProblem, InvalidValueError, LoadError
from holdfast.runtime.settings_files.source import read_source, values_hidden
from holdfast.runtime.text_safety import extra_command
from holdfast.schemas import names
from holdfast.schemas.base import format_duration
from holdfast.schemas.phrases import suggest_names
from holdfast.schemas.settings.servers import McpLock, McpLocked, Server, Servers
from holdfast.schemas.tool import McpTool, ResolvedTool
from holdfast.validation.content_cache import content_of
from holdfast.validation.problems import ValueProblem

MCP_LOCK = "mcp.lock.json"
MCP = "mcp:"
PROMPT = "prompt/"
_ENTRY = re.compile(r"mcp:([^/]+)/(.+)", re.DOTALL)
_PROMPT_ENTRY = re.compile(rf"mcp:([^/\s]+/{PROMPT}\S+)")
# Of a tool's name; that of a server and `_` precede it.
_MAX_NAME_CHARACTERS = 128
_DIGEST_CHARACTERS = 8
_PART_CHARACTERS = 12
# The values of these fields of a server may hold a key.
_VALUES_HIDDEN = values_hidden("url", "headersEnv", "args", "envFrom", "auth", "principalTokens")


@dataclass(frozen=True)
class ListedTool:
    """A tool as its server lists it."""

    name: str
    title: str | None = None
    description: str | None = None
    input_schema: Mapping[str, Any] = field(default_factory=dict)
    output_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    """Why no run can have it; such a tool is left out."""

    @property
    def label(self) -> Any:
        return self.title or self.annotations.get("title")

    @property
    def digest(self) -> str:
        """Return the SHA-256 of what a model and a person are shown of it, and of its hints."""
        shown = [self.name, self.title, self.description, self.input_schema, self.output_schema]
        return _sha256([*shown, self.annotations])

    @property
    def locked(self) -> dict[str, str]:
        """Return its digest, and short ones of its parts, which show what has changed."""
        parts = {
            "description": [self.title, self.description],
            "schemas": [self.input_schema, self.output_schema],
            "hints": self.annotations,
        }
        short = {name: _sha256(part)[:_PART_CHARACTERS] for name, part in parts.items()}
        return {"digest": self.digest, **short}


def _sha256(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# What servers list, by their names; of a server that cannot be reached, the reason. A prompt or a
# resource is by `SERVER/prompt/NAME` or `SERVER/URI`: its text is the description of the one there.
Listing = Mapping[str, Sequence[ListedTool] | str]
ListServers = Callable[[Collection[str]], Listing]


def load_servers(file: Path | None) -> dict[str, Server]:
    """Load the servers of a file such as `servers.yaml`, by name, or raise `LoadError`."""
    if file is None:
        return {}
    source = read_source(file)
    if isinstance(source.value, dict):
        source.value.pop("$schema", None)
    return source.parse_as(Servers, _VALUES_HIDDEN).root


def require_library(file: Path | None) -> None:
    """Import the library of MCP if there is a file of servers; raise `LoadError` without it."""
    try:
        if file is not None:
            import_module("mcp")
    except ImportError as error:
        reason = f"MCP servers need the package {error.name}, which is not installed"
        problem = FileProblem(str(file), None, reason, extra_command("mcp"))
        raise LoadError([problem]) from None


def is_mcp(entry: Any) -> bool:
    return isinstance(entry, str) and entry.startswith(MCP)


def named_servers(written: Any) -> list[str]:
    """List the servers that a written agent, or an entry of `tools`, names.

    A prompt that is the instructions is listed by itself, as `SERVER/prompt/NAME`.
    """
    if isinstance(written, dict):
        skills = written.get("skills")
        holders = [written, *(skills if isinstance(skills, list) else [])]
        holders = [each for each in holders if isinstance(each, dict)]
        tools = [each["tools"] for each in holders if isinstance(each.get("tools"), list)]
        entries = [*chain(*tools)]
        prompts = [_prompt_in(each.get("instructions")) for each in holders]
    else:
        entries, prompts = [written], []
    found = (_ENTRY.fullmatch(entry) for entry in entries if is_mcp(entry))
    return list(dict.fromkeys([*(each[1] for each in found if each), *filter(None, prompts)]))


def _prompt_in(instructions: Any) -> str | None:
    """Return the prompt that instructions name, as `SERVER/prompt/NAME`."""
    found = isinstance(instructions, str) and _PROMPT_ENTRY.fullmatch(instructions.strip())
    return found[1] if found else None


def instructions_of(written: str, world: DefinitionRegistry, listing: Listing | None) -> str:
    """Return instructions, or the text of the prompt that they name, if that is listed.

    Raises:
        InvalidValueError: it cannot be read, or its server is not trusted: a model obeys it.
    """
    if (prompt := _prompt_in(written)) is None:
        return written
    server, _ = read_entry(f"{MCP}{prompt}", world)
    if not world.servers[server].trusted:
        reason = f"MCP server `{server}` is not trusted to write instructions"
        fix = "write them here, or set its `trusted: true`"
        raise InvalidValueError.of(reason, fix)
    if listing is None:
        return written
    if isinstance(found := listing[prompt], str):
        raise InvalidValueError.of(found, "check the server")
    return found[0].description or ""


def load_lock(folder: Path | None) -> McpLocked | None:
    """Load the lock of a catalog folder, if it has one, or raise `LoadError`."""
    if folder is None or not os.path.lexists(folder / MCP_LOCK):
        return None
    return read_source(folder / MCP_LOCK).parse_as(McpLock).root


def lock_text(listed: Mapping[str, Sequence[ListedTool]]) -> str:
    """Return the lock of the listed tools: one line for each, in the order of their names."""
    locked = {f"{name}/{one.name}": one.locked for name, each in listed.items() for one in each}
    lines = [f"{json.dumps(key)}: {json.dumps(locked[key])}" for key in sorted(locked)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def lock_changes(before: McpLocked, listed: Mapping[str, Sequence[ListedTool]]) -> Iterator[str]:
    """Yield each tool that is new, changed or gone, and what is shown of it now."""
    now = {f"{name}/{one.name}": one for name, each in listed.items() for one in each}
    about = {key: ": ".join(filter(None, (one.label, one.description))) for key, one in now.items()}
    for key in sorted({*before, *now}):
        if key not in now:
            yield f"removed: {key}"
        elif key not in before:
            yield f"new: {key}: {about[key]}"
        elif before[key] != (new := now[key].locked):
            parts = [part for part in new if part != "digest" and new[part] != before[key][part]]
            yield f"changed: {key} ({', '.join(parts)}): {about[key]}"


def lock_problems(
    server: str, listed: Iterable[ListedTool], lock: McpLocked | None
) -> dict[str, ValueProblem]:
    """Return the tools that new runs may not have as they are listed, each with the problem."""
    found: dict[str, ValueProblem] = {}
    for each in listed:
        known = each.locked if lock is None else lock.get(f"{server}/{each.name}")
        if known != each.locked and not each.problem:
            what = "is not locked" if known is None else "has changed since it was locked"
            reason = f"MCP server `{server}`: tool `{each.name}` {what}"
            fix = "look at it, then `holdfast mcp lock`"
            found[each.name] = ValueProblem((), reason, fix)
    return found


def matches(tool: str, pattern: str) -> bool:
    return tool == pattern or fnmatchcase(tool, pattern)


def read_entry(entry: str, world: DefinitionRegistry) -> tuple[str, str]:
    """Return the server of an `mcp:` entry, and what it names of it.

    Raises:
        InvalidValueError: it has another form, or there is no such server.
    """
    parts = _ENTRY.fullmatch(entry)
    if parts is None:
        fix = "write `mcp:SERVER/TOOL`, or `mcp:SERVER/*` for all of its tools"
        raise InvalidValueError.of(f"`{entry}` names no tool of a server", fix)
    if parts[1] not in world.servers:
        fix = suggest_names(parts[1], world.servers, "`--servers` gives it some")
        raise InvalidValueError.of(f"there is no MCP server `{parts[1]}`", fix)
    return parts[1], parts[2]


def tools_of_entry(
    entry: str, world: DefinitionRegistry, listing: Listing | None
) -> list[ResolvedTool]:
    """Return the tools of an `mcp:` entry; none without a listing, as a catalog loads.

    Raises:
        InvalidValueError: the entry, its server or one of the tools does not load.
    """
    name, pattern = read_entry(entry, world)
    lock = world.mcp_lock
    if lock is not None and not any(matches(each, f"{name}/{pattern}") for each in lock):
        fix = "correct it, or look at the server's tools, then `holdfast mcp lock`"
        raise InvalidValueError.of(f"no tool `{name}/{pattern}` is locked", fix)
    if listing is None:
        return []
    listed = listing[name]
    if isinstance(listed, str):
        fix = "check the server, and its entry in the file of `--servers`"
        raise InvalidValueError.of(f"{listed} (for `{entry}`)", fix)
    found = [each for each in listed if matches(each.name, pattern)]
    if not found:
        fix = suggest_names(pattern.strip("*"), [each.name for each in listed], "it lists none")
        raise InvalidValueError.of(f"MCP server `{name}` has no tool `{pattern}`", fix)
    unlocked = lock_problems(name, found, lock)
    allowed = [each for each in found if each.name not in unlocked]
    changed = [each for tool, each in unlocked.items() if lock and f"{name}/{tool}" in lock]
    if changed or not allowed:
        raise InvalidValueError(changed or unlocked.values())
    ours, tools, problems = _names(name, listed), list[ResolvedTool](), list[ValueProblem]()
    for each in allowed:
        try:
            key = content_of("mcp", name, ours[each.name], each)
            tool = partial(_tool, name, each, ours[each.name], world)
            tools.append(world.resolved.get(key, tool))
        except InvalidValueError as refused:
            problems += refused.faults
    if not tools:
        raise InvalidValueError(problems)
    return tools


def left_out(
    server: str, listed: Sequence[ListedTool], world: DefinitionRegistry
) -> Iterator[ValueProblem]:
    """Yield why runs do not have a tool that a server lists."""
    ours = _names(server, listed)
    for each in listed:
        try:
            _tool(server, each, ours[each.name], world)
        except InvalidValueError as refused:
            for fault in refused.faults:
                yield replace(fault, reason=f"{fault.reason}; the tool is left out")


def tool_of_entry(entry: Any, world: DefinitionRegistry, listing: Listing | None) -> ResolvedTool:
    """Return one tool: of a server, or as `resolve_tool_entry` does.

    Raises:
        InvalidValueError: there is no such tool, there are several, or it does not load.
    """
    if not is_mcp(entry):
        return resolve_tool_entry(entry, world)
    found = tools_of_entry(entry, world, listing)
    if len(found) != 1:
        raise InvalidValueError.of(f"`{entry}` matches {len(found)} tools", "name one of them")
    return found[0]


def _names(server: str, listed: Sequence[ListedTool]) -> dict[str, str]:
    """Return our names of a server's tools: characters that do not fit become `_`.

    Equal and too long names get a digest of the tool's own.
    """
    tools = [each.name for each in listed]
    fitted = {each: re.sub(r"[^A-Za-z0-9_.-]", "_", f"{server}_{each}") for each in tools}
    taken = [*fitted.values()]
    for each, name in fitted.items():
        if len(name) > _MAX_NAME_CHARACTERS or taken.count(name) > 1:
            digest = hashlib.sha256(each.encode("utf-8", "surrogatepass")).hexdigest()
            kept = name[: _MAX_NAME_CHARACTERS - _DIGEST_CHARACTERS - 1]
            fitted[each] = f"{kept}_{digest[:_DIGEST_CHARACTERS]}"
    return fitted


def _tool(server: str, listed: ListedTool, name: str, world: DefinitionRegistry) -> ResolvedTool:
    theirs = f"MCP server `{server}`, tool `{listed.name}`: "
    if listed.problem:
        raise InvalidValueError.of(f"{theirs}{listed.problem}", "have the server corrected")
    settings, hints = world.servers[server], listed.annotations
    # Hints loosen only if they are trusted, and people decide by a title.
    is_harmless = hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True
    is_idempotent = hints.get("idempotentHint") is True
    # The worker's own activity, which no written tool can name, has another name until then.
    binding = {"type": f"{MCP}{server}"}
    if settings.timeout is not None:
        binding["startToCloseTimeout"] = format_duration(settings.timeout)
    # A title in the schema is often generated, and no name for people.
    keywords = listed.input_schema.items()
    written: dict[str, Any] = {
        "_label": listed.label if settings.trusted else None,
        "description": listed.description,
        "_parameters": {key: each for key, each in keywords if key not in ("title", "description")},
        "_output": None if listed.output_schema is None else {**listed.output_schema},
        "_activity": binding,
        "_untrusted": True,
        "_sideEffects": not (settings.trusted and is_harmless),
        "_idempotent": True if settings.trusted and is_idempotent else None,
        **settings.overrides.get(listed.name, {}),
    }
    written = {key: value for key, value in written.items() if value is not None}
    activities = frozenset([*world.activities, binding["type"]])
    try:
        tool = resolve_tool(written, name, replace(world, activities=activities))
    except InvalidValueError as refused:
        faults = []
        for fault in refused.faults:
            where = f"{'.'.join(map(str, fault.where))}: " if fault.where else ""
            faults.append(ValueProblem((), f"{theirs}{where}{fault.reason}", fault.fix))
        raise InvalidValueError(faults) from None
    assert tool.activity is not None  # as it is written
    reference = McpTool(
        server=server,
        tool=listed.name,
        digest=listed.digest,
        structured=listed.output_schema is not None,
    )
    activity = tool.activity.model_copy(update={"type": names.CALL_MCP_TOOL})
    return tool.model_copy(update={"activity": activity, "mcp": reference})
