"""Escape characters that a person cannot see, or that make a text read differently.

Models, tools and the starters of runs are untrusted, and people decide by the text that they wrote.
Every screen, page, message and line of a terminal uses this rule.
"""

import re
import unicodedata

# C0 but tab and newline, DEL, C1; marks that reorder or hide text, and letters without a shape;
# halves of surrogate pairs. Joiners and selectors, which scripts and emoji need, only where they
# have no use.
INVISIBLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e"
    r"\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    r"|(?<![^\t\n -~\u200c\u200d])[\u200c\u200d]"
    r"|(?<![^\t\n -~\u200c\u200d\ufe0e\ufe0f])[\ufe0e\ufe0f](?!\u20e3)"
)


def visible(text: str) -> str:
    r"""Escape every invisible character of a text as `\uXXXX`; line ends become `\n`."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return INVISIBLE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def normalized_person(by: str | None) -> str | None:
    """Normalize a person's name: case, spaces and invisible marks make no different person."""
    if by is None:
        return None
    folded = unicodedata.normalize("NFKC", by).casefold()
    seen = "".join(each for each in folded if unicodedata.category(each) != "Cf")
    return " ".join(seen.split())
