"""How a run stands is said in the same words on every page (§11)."""

from holdfast.web.page_text import status_label
from holdfast.web.run import delegate_tree


def test_every_status_has_words_and_one_that_is_not_known_says_itself() -> None:
    assert status_label("awaiting_approval") == ("waiting for approval", "asks")
    assert status_label("of\u202e another version") == ("of another version", "bad")


def test_a_delegate_says_it_as_a_run_does_however_temporal_spells_it() -> None:
    view = {"callId": "t1c1", "tool": "ask", "agent": "clerk", "workflowId": "order-7.t1c1"}
    branch = delegate_tree._by_status({**view, "status": "canceled", "pending": []})
    assert (branch.status, branch.tone) == status_label("cancelled")
