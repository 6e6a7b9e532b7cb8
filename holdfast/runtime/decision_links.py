"""Links that decide: each on one call as it is shown, in the name of one person.

The link has a sealed token with the call, the person and the expiry of the approval. The inbox has
the same secret, opens the token, and shows a page (`web.app`): a link that is fetched decides
nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from holdfast.runtime.http_post import EnvironmentValue
from holdfast.runtime.text_sealer import MAX_SEALED_CHARS, TextSealer
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.schemas.settings.notify import News

LINK_SECRET: Final = "HOLDFAST_LINK_SECRET"
MIN_SECRET_CHARACTERS: Final = 32
PATH: Final = "/decide/"
KIND: Final = "decision"


@dataclass(frozen=True)
class DecisionLinks(EnvironmentValue):
    """The secret of the links, which begin with the address `inbox`."""

    inbox: str

    def personal(self, news: News, by: str, groups: Sequence[str]) -> News:
        """Return the news with a link of this person, where a link can decide."""
        waiting = news.waiting
        is_theirs = not waiting.approvers or not {*waiting.approvers}.isdisjoint(groups)
        is_plain = waiting.kind == "call" and not waiting.signed and not news.is_over
        if not (is_theirs and is_plain and waiting.digest and waiting.nonce):
            return news
        left = datetime.fromisoformat(waiting.expires_at) - datetime.now(UTC)
        call = str(SelectedCall.of(news.workflow_id, waiting))
        person = {"call": call, "by": by, "groups": [*groups]}
        token = TextSealer(self.value()).seal(KIND, person, int(left.total_seconds()))
        if len(token) > MAX_SEALED_CHARS:
            return news
        return news.model_copy(update={"link": f"{self.inbox}{PATH}{token}"})
