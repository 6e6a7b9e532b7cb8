"""What loading refuses, case by case: the files, and each line that is printed of them.

A text states a rule, and then has lines of these kinds; those before the first case are of each.

    case NAME               a mistake, in a folder of its own with `GOOD_PLACE` in it
    file NAME               the lines below, indented by four, are a file (`… in latin-1`,
                            `… of 9 spaces`)
    folder NAME, link NAME to TARGET, without NAME
    $ export NAME=VALUE     a setting
    $ holdfast check …      the command, if its words are others than `CHECK`
    ! LINE                  what is printed: the place, what is wrong, and the fix
    an editor reports it    or nothing, by the published schema of the file

`python -m tests.contract.test_wrong_loading` writes what is printed again: read the difference.
"""

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from holdfast.hosting import worker
from holdfast.hosting.process_exit import WRONG_SETUP
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.runtime.settings_files.source import read_source
from tests.schemas.publish import FOLDER
from tests.support.text_files import compare, text_files, write_again

TEXTS = text_files(__file__, ".txt")
CHECK = ["--catalog", ".", "--tools", "shop.py", "--endpoints", "endpoints.yaml"]
GOOD_PLACE = """\
folder tools
folder agents
file endpoints.yaml
    m: {provider: script, file: script.yaml}
file script.yaml
    - text: Done.
file shop.py
    from pydantic import BaseModel
    from temporalio import activity


    class Order(BaseModel):
        order_id: str


    @activity.defn
    async def look_up(order: Order) -> str:
        "Look an order up."
        return order.order_id


    @activity.defn
    async def charge(arguments: dict[str, object]) -> None: ...
"""
PUBLISHED = {
    "tools": "tool",
    "agents": "agent",
    "budgets.yaml": "budgets",
    "endpoints.yaml": "endpoints",
    "keys.yaml": "keys",
    "limits.yaml": "limits",
    "notify.yaml": "notify",
}


def blocks(text: str) -> list[str]:
    """The lines of a text, each with those that are indented below it."""
    return re.split(r"\n(?=\S)", text.strip("\n"))


def put(name: str, how: str, below: str) -> None:
    """Write a file with the lines below it."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = re.sub("(?m)^    ", "", f"{below}\n") if below else ""
    match re.split(" ", how):
        case ["of", count, "spaces"]:
            path.write_text(" " * int(count.replace(",", "")))
        case ["in", encoding]:
            path.write_text(text, encoding=encoding)
        case _:
            path.write_text(text, encoding="utf-8")


def prepare(block: str, patch: pytest.MonkeyPatch) -> list[str] | None:
    """Apply a line of a case; the words of its command, if it is one."""
    line, _, below = block.strip("\n").partition("\n")
    match shlex.split(line):
        case ["file", *_]:
            name, how = re.fullmatch(r"file (.+?)(?: ((?:of|in) .+))?", line).groups()  # type: ignore[union-attr]
            put(name, how or "", below)
        case ["folder", name]:
            Path(name).mkdir(exist_ok=True)
        case ["link", name, "to", target]:
            Path(name).symlink_to(Path(target).resolve())
        case ["without", name]:
            Path(name).rmdir()
        case ["$", "export", setting]:
            patch.setenv(*setting.split("=", 1))
        case ["$", "holdfast", "check", *words]:
            return words
        case _:
            raise AssertionError(f"no line of a case: {line}")
    return None


def reported_by_an_editor(files: list[str]) -> list[str]:
    """Whether the published schema of the one file of a case finds its mistake."""
    name = files[0].split()[1] if len(files) == 1 else ""
    kind = PUBLISHED.get(name.partition("/")[0])
    if kind is None or not Path(name).is_file():
        return []
    schema = json.loads((FOLDER / f"{kind}.schema.json").read_text())
    try:
        value = read_source(Path(name)).value
    except LoadError:
        return []
    has_errors = any(Draft202012Validator(schema).iter_errors(value))
    return [f"an editor reports {'it' if has_errors else 'nothing'}"]


@contextmanager
def restored_outputs() -> Iterator[None]:
    """Restore standard output and error, which a check redirects for good."""
    copies = {number: os.dup(number) for number in (1, 2)}
    yield
    for number, copy in copies.items():
        os.dup2(copy, number)
        os.close(copy)


@contextmanager
def place(folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """Work in a folder, without settings in the environment."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in os.environ:
            if variable.startswith(("HOLDFAST_", "OPENAI_", "ANTHROPIC_", "GEMINI_", "OLLAMA_")):
                patch.delenv(variable)
        patch.chdir(folder)
        patch.setattr(sys, "path", list(sys.path))
        yield patch


@pytest.mark.parametrize("name", TEXTS)
def test_it_is_reported_in_a_line_with_what_to_do(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    head, *cases = re.split(r"\n\n(?=case )", TEXTS[name].read_text(encoding="utf-8"))
    assert len({case.partition("\n")[0] for case in cases}) == len(cases)
    common = [each for each in blocks(head)[1:] if each.strip()]
    played = [head.rstrip("\n")]
    for number, case in enumerate(cases):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        title, *lines = [each for each in blocks(case) if not each.startswith(("! ", "an editor"))]
        with place(folder) as patch:
            commands = [prepare(each, patch) for each in [*blocks(GOOD_PLACE), *common, *lines]]
            *_, words = [CHECK, *(each for each in commands if each is not None)]
            with restored_outputs():
                code = worker.main(["--check", *words])
            out, err = capfd.readouterr()
            files = [each for each in lines if each.startswith("file ")]
            printed = err.replace(f"{folder}/", "").splitlines()
            played += ["", title, *(each.rstrip("\n") for each in lines)]
            played += [*(f"! {line}" for line in printed), *reported_by_an_editor(files)]
        assert (code, out) == (WRONG_SETUP, ""), title
        assert all("; " in line for line in printed), title
    compare(TEXTS[name], "\n".join([*played, ""]))


def test_the_good_place_itself_loads(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with place(tmp_path) as patch:
        for each in blocks(GOOD_PLACE):
            prepare(each, patch)
        assert worker.main(["--check", *CHECK]) == 0
    assert capfd.readouterr().out.endswith("1 tool, 0 agents, endpoints m: OK\n")


if __name__ == "__main__":
    write_again(__file__)
