"""Check the product's words and names: `python -m tests.contract.style`.

Two rules: prose uses no word of the table `AVOIDED`, and no two public classes share a name.
Prose is every comment, docstring and string literal with a space in it, and the text of the
templates; names and fields are no prose, since clients depend on them. A line that ends with
`# durable text` is exempt: it is part of a history or of a digest.
"""

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (
    *("schemas", "validation", "runtime", "providers", "catalog", "workflows", "activities"),
    *("hosting", "client", "web", "cli"),
)

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
    r"whoever|nobody|somebody|whom": "the caller, the approver, no one named",
    r"(is|are|was|were|be|been) told": "receives, is sent",
    r"stands? (in|for|at|there)": "is, is stored, is listed",
}
_AVOIDED = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in AVOIDED), re.IGNORECASE)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the prose of a file, line by line, with its line numbers."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    durable = {n for n, line in enumerate(text.splitlines(), 1) if line.endswith("# durable text")}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_prose = token.type in (tokenize.COMMENT, tokenize.STRING) and " " in token.string
        is_prose = is_prose or token.type == getattr(tokenize, "FSTRING_MIDDLE", -1)
        # Code within a formatted string is no prose.
        text = re.sub(r"\{[^{}\n]*\}", "", token.string)
        lines = text.splitlines() if is_prose else []
        for number, line in enumerate(lines, token.start[0]):
            if number not in durable:
                yield number, line


def files(suffix: str) -> list[Path]:
    """Return the product's files of one kind."""
    return [
        path for name in PACKAGES for path in sorted((ROOT / "holdfast" / name).rglob(f"*{suffix}"))
    ]


def avoided() -> Iterator[str]:
    """Yield a line for each avoided word."""
    for path in [*files(".py"), *files(".html")]:
        for number, line in prose(path):
            for match in _AVOIDED.finditer(line):
                place, found = f"{path.relative_to(ROOT)}:{number}", match.group()
                instead = next(AVOIDED[old] for old in AVOIDED if re.fullmatch(old, found, re.I))
                yield f"{place}: avoid `{found}`; write: {instead}"


def shared_names() -> Iterator[str]:
    """Yield a line for each name that several public classes share."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in files(".py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    for name, found in places.items():
        if len(found) > 1:
            yield f"{found[0]}: class `{name}` has the name of {', '.join(found[1:])}"


if __name__ == "__main__":
    problems = [*avoided(), *shared_names()]
    print("\n".join(problems) or "words and names: OK")
    sys.exit(bool(problems))
