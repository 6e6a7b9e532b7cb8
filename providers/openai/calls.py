"""The calls of a streamed completion, put together from their pieces.

By the format, a piece belongs to the call at its `index`. What servers send: no index; index 0 for
every call; no id, or one id twice; a call's name in pieces, or again with every piece; arguments
before the name, or as an object. Each piece goes to the call that it can only mean.
"""

from dataclasses import dataclass
from typing import Any

from holdfast.providers.answer_reading import arguments_text, read_text
from holdfast.providers.streamed_answer import MAX_NAME_CHARACTERS, CallDraft, StreamedAnswer


@dataclass(frozen=True)
class CallDelta:
    """What one chunk says of one call; `index` is None where the chunk has none."""

    index: int | None
    provider_id: str | None
    name: str
    arguments: str

    @classmethod
    def read(cls, call: dict[str, Any]) -> "CallDelta":
        """The piece in an item of `tool_calls`; what has not its form counts as absent."""
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        index, arguments = call.get("index"), function.get("arguments")
        return cls(
            index=index if isinstance(index, int) and not isinstance(index, bool) else None,
            provider_id=read_text(call.get("id")) or None,
            name=read_text(function.get("name")),
            arguments="" if arguments is None else arguments_text(arguments),
        )


class StreamedCalls:
    """Gives the pieces of calls to an answer."""

    def __init__(self, answer: StreamedAnswer) -> None:
        self._answer = answer
        self._by_index: dict[int, CallDraft] = {}
        self._by_id: dict[str, CallDraft] = {}
        self._last: CallDraft | None = None

    def read(self, call: dict[str, Any]) -> None:
        """One item of a chunk's `tool_calls`."""
        piece = CallDelta.read(call)
        draft = self._begun(piece)
        if draft is None or _begins_another(draft, piece):
            draft = self._answer.add_call(piece.name, piece.provider_id)
        else:
            _complete(draft, piece)
        self._remember(draft, piece)
        self._answer.add_arguments(draft, piece.arguments)

    def _begun(self, piece: CallDelta) -> CallDraft | None:
        if piece.index is not None:
            return self._by_index.get(piece.index)
        if piece.provider_id is not None:
            return self._by_id.get(piece.provider_id)
        return self._last

    def _remember(self, draft: CallDraft, piece: CallDelta) -> None:
        self._last = draft
        if piece.index is not None:
            self._by_index[piece.index] = draft
        if piece.provider_id is not None:
            self._by_id[piece.provider_id] = draft


def _begins_another(begun: CallDraft, piece: CallDelta) -> bool:
    """Whether a piece that points to `begun` is the beginning of another call."""
    if not piece.name:
        return False
    if piece.provider_id and begun.provider_id and piece.provider_id != begun.provider_id:
        return True
    if piece.index is None and (piece.provider_id is None or piece.name != begun.name):
        return True
    return bool(piece.arguments) and begun.has_whole_arguments


def _complete(begun: CallDraft, piece: CallDelta) -> None:
    begun.provider_id = begun.provider_id or piece.provider_id
    is_repeated = piece.name == begun.name
    if not begun.name or (not is_repeated and not begun.arguments.bytes):
        begun.name = (begun.name + piece.name)[:MAX_NAME_CHARACTERS]
