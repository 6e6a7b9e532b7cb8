"""Messages entering a run: later calls can refer to the data in them.

The model receives the data of one kind (and instance) merged into one part. Of several parts that
arrive together, it receives the merged value at the position of the last one; a later part is shown
with the value merged up to then, since nothing that was sent to the model changes afterwards. The
state is the exception: it follows the conversation. The log holds each message as it arrived: a
data message that is shown differently is a write there.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from holdfast.schemas.base import MAX_JSON_DEPTH, is_deeper
from holdfast.schemas.internal.continue_as_new import DescriptionSnapshot
from holdfast.schemas.message import ChatMessage, DataPart, Message, Part
from holdfast.schemas.reference import Path
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.state.data import MISSING, CannotWrite
from holdfast.workflows.engine.state.redaction import Redaction, hidden_value

# Each tool's schema lists all of their names.
MAX_INSTANCES = 500


class DataMessageWriter:
    """Writes messages that arrive together.

    `refuse` receives the kind of data that cannot be stored, and the reason. A message of a call
    for an instance is stored `within` that instance only, and `veil` is its redaction in the state.
    What is in an imported call or result is shown, and read by no reference.
    """

    def __init__(
        self,
        state: RunState,
        messages: Iterable[Message | ChatMessage],
        refuse: Callable[[str, str], None],
        *,
        within: str | None = None,
        veil: Redaction | None = None,
    ) -> None:
        self._state = state
        self._refuse = refuse
        self._within = within
        self._veil = veil
        self._left = Counter(
            self._place(part)
            for message in messages
            if not (isinstance(message, ChatMessage) and message.imported)
            for part in message.content
            if isinstance(part, DataPart)
        )
        self._taken: set[Path] = set()
        self._outside = veil is not None and not veil.trusted
        # Parts that the model receives unchanged: the only ones of their kind and instance, and
        # not from outside.
        self._alone = {
            place
            for place, count in self._left.items()
            if count == 1 and not self._stands(place) and not self._outside
        }

    def write(self, message: ChatMessage) -> None:
        """Write one of the messages to the log."""
        content = message.content
        if isinstance(content, list) and not message.imported:
            content = [shown for part in content for shown in self._part(part)]
            if not content and message.content:
                return
        self._state.log.add_message(message.model_copy(update={"content": content}))

    def _part(self, part: Part) -> Iterator[Part]:
        """Yield the parts that the model receives in place of a part."""
        if not isinstance(part, DataPart):
            yield part
            return
        place = self._place(part)
        self._left[place] -= 1
        try:
            self._take(part, place)
        except CannotWrite as error:
            self._refuse(place.kind, str(error))
        shown = place in self._taken and self._left[place] == 0
        if shown and place.kind != "state":
            own = part.model_copy(update={"instance": place.instance})
            yield own if place in self._alone else self._whole(place)

    def _place(self, part: DataPart) -> Path:
        return Path(part.kind, (), part.instance or self._within)

    def _stands(self, place: Path) -> bool:
        return self._state.data.own_value(place.kind, place.instance) is not MISSING

    def _take(self, part: DataPart, place: Path) -> None:
        """Store data so that references can read it, or raise `CannotWrite`."""
        state = self._state
        if self._within is not None and place.instance != self._within:
            raise CannotWrite(f"it comes from a call for the instance {self._within}")
        known = state.data.instances
        new = place.instance not in (None, *known)
        # Data from outside must not replace data from another source.
        own = place.kind in ("input", "state") or (
            self._stands(place) and not state.redactions.is_outside(place)
        )
        if self._outside and (new or own):
            raise CannotWrite("it is untrusted, and only trusted data can add instances")
        if new and len(known) >= MAX_INSTANCES:
            raise CannotWrite(f"a run has at most {MAX_INSTANCES} instances")
        if place in self._alone and place.instance is None and place.kind != "state":
            state.set_data(place.kind, part.data)
        else:
            state.write([place], part.data, "merge", veil=self._veil)
        self._taken.add(place)
        old = state.described.get(place)
        state.described[place] = DescriptionSnapshot(
            kind=place.kind,
            instance=place.instance,
            schema_=part.schema_ or (old.schema_ if old else None),
            description=part.description or (old.description if old else None),
        )

    def _whole(self, place: Path) -> DataPart:
        data = self._state.redactions.redact(
            self._state.data.own_value(place.kind, place.instance), place
        )
        if is_deeper(data, MAX_JSON_DEPTH):
            data = hidden_value(data, place)
        described = self._state.described[place]
        return DataPart(
            kind=place.kind,
            data=data,
            schema_=described.schema_,
            description=described.description,
            instance=place.instance,
        )
