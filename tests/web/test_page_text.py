"""How a run stands is said in the same words on every page (§11)."""

from holdfast.web.page_text import status_label


def test_every_status_has_words_and_one_that_is_not_known_says_itself() -> None:
    assert status_label("awaiting_approval") == ("waiting for approval", "asks")
    assert status_label("of\u202e another version") == ("of another version", "bad")
