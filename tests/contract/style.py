"""Check words and names: `python -m tests.contract.style`.

Four rules: prose uses no word of the table `AVOIDED`, nor do the names of tests and of what they
use, no two public classes of the product share a name, nor two of the tests, and a public function
of the product has a docstring, but for a property and one of a few lines.
Prose is every comment, docstring and string literal with a space in it, and the text of the
templates; names and fields are no prose, since clients depend on them, nor is what is in backticks.
A string of a test is no prose: it is input, or what the product wrote.
"""

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from bench.structure.source import files_of_product, files_of_tests

ROOT = Path(__file__).parents[2]
# Activities of the tests that stored histories name.
RECORDED = {"mend", "stand_in", "says"}

# What to avoid, as a pattern, and what to write.
AVOIDED = {
    r"mend(s|ed|ing)?|put right": "fix",
    r"carr(y|ies|ied|ying) (it |them |this |that |a call |calls )?out": "run, execute",
    r"c[ao]me of (it|that|this|them)|came to": "result, outcome",
    r"anew|once more": "again",
    r"begun": "started",
    r"under way": "running",
    r"heard of": "reported",
    r"what waits|waiting calls?|calls? that waits?": "pending approval",
    r"put off": "skipped",
    r"did not count|does not count": "rejected",
    r"in a circle": "circular",
    r"draws? on": "uses",
    r"worker of others": "an external worker",
    r"nothing to mend": "OK",
    r"whoever|whom|(no|some|any|every)body": "the caller, the approver, no one named",
    r"says?|said|saying": "state, contain, name, report, write",
    r"tells?|told": "receives, is sent, reports",
    r"hears?|heard": "receives",
    r"speaks?|spoke|spoken": "uses, supports",
    r"wants?|for want of": "requires, requests",
    r"stands? (in|for|at|there|before|beside|twice)": "is, is stored, is listed",
    r"(can ?not|could not) be had": "is not available",
    r"(go|goes|went|going) on|left off": "continue",
    r"(is|are|was|has|have) gone": "no longer exists, was removed",
    r"in force": "active, applies",
    r"of before": "previous",
    r"shall": "approval needed",
    r"broke off|passed over|in the open|to come": "closed, ignored, unencrypted, pending",
}
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
_NAMED = _FUNCTION | ast.ClassDef
# The longest body of a function that may do without a docstring.
PLAIN_LINES = 3
_AVOIDED = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in AVOIDED), re.IGNORECASE)


def prose(path: Path, *, with_strings: bool = True) -> Iterator[tuple[int, str]]:
    """Yield the prose of a file, line by line, with its line numbers."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        text = re.sub(r"\{[{%].*?[%}]\}|\b(class|for|id|name)=\"[^\"]*\"", "", text)
        yield from enumerate(text.splitlines(), 1)
        return
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        # Code within a formatted string, in backticks, and a regular expression are no prose.
        text = re.sub(r"\{[^{}\n]*\}|`[^`\n]*`", "", token.string)
        is_docstring = before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        is_string = token.type == tokenize.STRING and (with_strings or is_docstring)
        is_prose = (token.type == tokenize.COMMENT or is_string) and " " in text
        is_part = with_strings and token.type == getattr(tokenize, "FSTRING_MIDDLE", -1)
        if (is_prose or is_part) and not text.startswith(('r"', 'rf"')):
            yield from enumerate(text.splitlines(), token.start[0])
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            before = token.type


def texts_of_product() -> list[Path]:
    """Return the product's files with prose: code, templates, the project of `holdfast init`."""
    pages, project = ROOT / "holdfast/web/templates", ROOT / "holdfast/cli/template"
    kept = [path for path in project.rglob("*") if path.suffix in (".py", ".md", ".yaml")]
    return [*files_of_product(ROOT), *sorted(pages.rglob("*.html")), *sorted(kept)]


def avoided() -> Iterator[str]:
    """Yield a line for each avoided word."""
    for path in texts_of_product():
        for number, line in prose(path):
            yield from problems_of(line, path, number)
    for path in files_of_tests(ROOT):
        for number, line in prose(path, with_strings=False):
            yield from problems_of(line, path, number)
        for number, name in names(path):
            yield from problems_of(re.sub("_|(?<=[a-z])(?=[A-Z])", " ", name), path, number)


def names(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the names of a module, its functions and its classes, with their line numbers."""
    yield 1, path.stem
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, _NAMED) and node.name not in RECORDED:
            yield node.lineno, node.name


def problems_of(text: str, path: Path, number: int) -> Iterator[str]:
    """Yield a line for each avoided word in a text."""
    for match in _AVOIDED.finditer(text):
        place, found = f"{path.relative_to(ROOT)}:{number}", match.group()
        instead = next(AVOIDED[old] for old in AVOIDED if re.fullmatch(old, found, re.I))
        yield f"{place}: avoid `{found}`; write: {instead}"


def shared_names(paths: Iterable[Path]) -> Iterator[str]:
    """Yield a line for each name that several public classes share."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    for name, found in places.items():
        if len(found) > 1:
            yield f"{found[0]}: class `{name}` has the name of {', '.join(found[1:])}"


def undocumented(paths: Iterable[Path]) -> Iterator[str]:
    """Yield a line for each public function without a docstring that its name cannot replace."""
    for path in paths:
        module = ast.parse(path.read_text(encoding="utf-8"))
        public = [
            node
            for owner in (module, *module.body)
            if owner is module or (isinstance(owner, ast.ClassDef) and owner.name[0] != "_")
            for node in owner.body
            if isinstance(node, _FUNCTION) and node.name[0] != "_"
        ]
        for node in public:
            lines = (node.end_lineno or 0) - node.body[0].lineno + 1
            marks = {ast.unparse(mark).rpartition(".")[2] for mark in node.decorator_list}
            is_plain = lines <= PLAIN_LINES or marks & {"property", "override", "overload"}
            if not is_plain and ast.get_docstring(node) is None:
                place = f"{path.relative_to(ROOT)}:{node.lineno}"
                yield f"{place}: write a docstring for `{node.name}`: what does a caller get?"


if __name__ == "__main__":
    shared = [*shared_names(files_of_product(ROOT)), *shared_names(files_of_tests(ROOT))]
    problems = [*avoided(), *shared, *undocumented(files_of_product(ROOT))]
    print("\n".join(problems) or "words, names and docstrings: OK")
    sys.exit(bool(problems))
