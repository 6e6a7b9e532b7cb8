"""A pending call with the question that was shown, as a form, a button or a link has it."""

from dataclasses import astuple, dataclass
from urllib.parse import quote, unquote

from holdfast.schemas.decision import PendingApproval


@dataclass(frozen=True)
class SelectedCall:
    """A selected call, with the digest and the nonce of the question that was shown."""

    run: str
    call: str
    digest: str
    nonce: str = ""

    @classmethod
    def of(cls, run: str, approval: PendingApproval) -> "SelectedCall":
        """Return the selection of a pending call as it is now."""
        return cls(run, approval.call_id, approval.digest, approval.nonce)

    def __str__(self) -> str:
        return "/".join(quote(part, safe="") for part in astuple(self))

    @classmethod
    def parse(cls, text: str) -> "SelectedCall | None":
        """Read a selection from a form; `None` for an invalid one."""
        parts = text.split("/")
        return cls(*map(unquote, parts)) if len(parts) == 4 and all(parts[:3]) else None
