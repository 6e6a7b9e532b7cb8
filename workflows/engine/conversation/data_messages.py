"""Messages entering a run: the data in them can be referred to from then on.

The model is shown the data of one kind (and instance) merged into one. Of several that are said at
once it reads the whole at the last one's place; of what is said later it reads what the whole is
then, since nothing that it was sent is worded differently afterwards. The state it reads behind the
conversation, and not here. For people, what was said is in the log as it was said: a data message
that is not shown just so is a write there.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from holdfast.schemas.base import MAX_JSON_DEPTH, is_deeper
from holdfast.schemas.internal.continue_as_new import DescriptionSnapshot
from holdfast.schemas.log_entry import MessageEntry
from holdfast.schemas.message import ChatMessage, DataPart, Message, Part
from holdfast.schemas.reference import Path
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.state.data import MISSING, CannotWrite
from holdfast.workflows.engine.state.redaction import Redaction, hidden_value

# Each tool offers the model all of their names to choose from.
MAX_INSTANCES = 500


class DataMessageWriter:
    """Messages that are said at once.

    `refuse` receives the kind of data that cannot be taken, and why. What a call for an instance
    says is `within` that instance alone, and `veil` says how it is shown in the state.
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
        self._left = Counter(self._place(part) for part in _data_in(messages))
        self._taken: set[Path] = set()
        self._outside = veil is not None and not veil.trusted
        # What the model is shown as it was said: it is the only one of its kind and instance, and
        # nothing from outside.
        self._alone = {
            place
            for place, count in self._left.items()
            if count == 1 and not self._stands(place) and not self._outside
        }

    def write(self, message: ChatMessage) -> None:
        """Write one of the messages into the log."""
        content = message.content
        if isinstance(content, list):
            content = [shown for part in content for shown in self._part(part)]
            if not content and message.content:
                return
        self._state.log.append(
            MessageEntry(message=message.model_copy(update={"content": content}))
        )

    def _part(self, part: Part) -> Iterator[Part]:
        """Yield what the model is shown of a part where it stands."""
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
        """Let data be referred to.

        Raises:
            CannotWrite: it cannot be kept.
        """
        state = self._state
        if self._within is not None and place.instance != self._within:
            raise CannotWrite(f"it comes from a call for the instance {self._within}")
        known = state.data.instances()
        new = place.instance not in (None, *known)
        if self._outside and (new or not self._is_strangers(place)):
            raise CannotWrite("it comes from outside, which has no say in what a run is about")
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

    def _is_strangers(self, place: Path) -> bool:
        """Return whether what comes from outside can be at a place.

        It replaces no one else's words.
        """
        if place.kind in ("input", "state"):
            return False
        return not self._stands(place) or self._state.redactions.is_outside(place)

    def _whole(self, place: Path) -> DataPart:
        """Return all data of a kind and instance as one part."""
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


def _data_in(messages: Iterable[Message | ChatMessage]) -> Iterator[DataPart]:
    for message in messages:
        for part in message.content:
            if isinstance(part, DataPart):
                yield part
