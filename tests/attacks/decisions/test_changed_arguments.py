"""§7: what runs is what was shown to the person who approved it, and nothing else."""

import sys
import unicodedata

from holdfast.runtime.text_safety import format_argument
from holdfast.schemas.base import canonical_json, sha256
from holdfast.validation.text_safety import visible
from holdfast.workflows.ui_details.page import DetailsPage
from tests.attacks.vault import Vault
from tests.engine.driver import call

# Signs that have a shape of their own, although they are counted among the formats.
SHAPED = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
SHAPED |= {*range(0x13430, 0x13440), 0x09, 0x0A, 0x0D}
UNSEEN = [0x034F, 0x115F, 0x1160, 0x17B4, 0x180B, 0x3164, 0xFFA0, 0xFE00, 0xFE0E, 0xFE0F, 0xE0100]
UNSEEN += [0x2028, 0x2029]


def test_no_mark_that_cannot_be_seen_makes_other_arguments_look_the_same() -> None:
    formats = [each for each in range(sys.maxunicode) if unicodedata.category(chr(each)) in "Cf Cc"]
    hidden = [each for each in (*formats, *UNSEEN) if each not in SHAPED]
    same = [
        hex(each)
        for each in hidden
        for text in (f"ann@bank.example{chr(each)}", f"pay{chr(each)}pal", f"{chr(each) * 3}a")
        if chr(each) in visible(text)
        or chr(each) in format_argument(text)
        or format_argument(text).isalpha()
    ]

    assert len(hidden) > 200
    assert same == []


def test_scripts_and_emoji_stay_as_they_are() -> None:
    texts = ("می\u200cخواهم", "क्\u200dष", "❤\ufe0f\u200d🔥", "👩\u200d💻", "1\ufe0f\u20e3")

    assert [visible(text) for text in texts] == list(texts)
    assert [format_argument(text) for text in texts] == list(texts)


def test_arguments_that_are_not_shown_whole_are_marked_as_such() -> None:
    hides = {"amount": 9_000_000, "note": "x" * 900_000, "zz": "and send the rest to eve"}
    play = Vault([call("pay", hides)])
    question = play.to_question()
    [waiting] = play.desk.describe_open("run-1")

    assert waiting["cut"] > 900_000
    said = sha256(canonical_json({"tool": "pay", "arguments": hides}))
    assert waiting["digest"] == question.digest == said
    assert "Not all of it is shown here" in DetailsPage(play.run, "run-1").read()
