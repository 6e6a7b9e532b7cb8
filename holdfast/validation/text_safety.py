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

# Never part of a name: no letter of a name needs them, and another name would look the same.
_NOT_IN_NAMES = re.compile(
    rf"{INVISIBLE.pattern}|[\u2800\ufe0e\ufe0f\ue000-\uf8ff\U00016fe4\U000f0000-\U0010ffff]"
)


def visible(text: str) -> str:
    r"""Escape every invisible character of a text as `\uXXXX`; line ends become `\n`."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return INVISIBLE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def plain_name(name: str) -> str:
    """Return a name without characters that a person cannot see; empty if no other is in it.

    Every identity passes this where it enters: authors of decisions, principals, subjects of
    tokens. Marks and look-alike letters that are visible remain: they may be another person's name.
    """
    return _NOT_IN_NAMES.sub("", name).strip()


# Between a name and the issuer that has given it, if it is not the first issuer.
ISSUER_MARK = " @ "


def normalized_person(by: str | None, *, with_issuer: bool = False) -> str | None:
    """Return what all names of one person have in common.

    Compatibility forms, case, joiners and spaces make no different person, nor does another issuer,
    unless `with_issuer`: a person could approve their own run through it.
    """
    if by is None:
        return None
    folded = unicodedata.normalize("NFKC", plain_name(by)).casefold()
    seen = " ".join("".join(one for one in folded if unicodedata.category(one) != "Cf").split())
    return seen if with_issuer else seen.partition(ISSUER_MARK)[0]


def is_same_person(one: str | None, other: str | None) -> bool:
    found = normalized_person(one)
    return bool(found) and found == normalized_person(other)
