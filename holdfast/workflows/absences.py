"""`AbsencesWorkflow`: when the approvers of a namespace are away, and who is their substitute.

The first absence starts it, and it ends with the last one. Each person has one absence: the last
update of it holds, and a repeated one changes nothing. An update names its person, as the inbox
takes it from the session; any client of the namespace can send another, which gives no right: see
`runtime.absences`. An unexpected exception fails its workflow task, not the workflow.
"""

from contextlib import suppress
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue, VersioningBehavior

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from holdfast.schemas import names
    from holdfast.schemas.base import json_size
    from holdfast.schemas.decision import MAX_REPRESENTED
    from holdfast.schemas.internal import absences
    from holdfast.validation.text_safety import is_same_person, normalized_person

from holdfast.workflows import input

MAX_STATE_BYTES = 500_000


@workflow.defn(name=names.ABSENCES_WORKFLOW)
class AbsencesWorkflow:
    """The absences of all people."""

    @workflow.init
    @input.raw_payload_handler
    def __init__(self, state: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        self._updates, self._has_changed, self._is_invalid = 0, False, False
        self._state = absences.Absences()
        try:
            self._state = absences.Absences.read(input.payload_value(state) or {})
        except (input.InvalidInputError, ValidationError):
            self._is_invalid = True

    @workflow.run
    @input.raw_payload_handler
    async def run(self, state: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        """Keep the absences until the last one is over."""
        if self._is_invalid:
            input.fail(names.INVALID_REQUEST, "only the first absence starts this workflow")

        while True:
            with suppress(TimeoutError):
                # Each update can change when the last absence is over.
                await workflow.wait_condition(
                    lambda: self._has_changed,
                    timeout=self._state.time_left(workflow.now()),
                    timeout_summary="Ends, if the last absence is over",
                )
            self._has_changed = False
            if not self._state.after(workflow.now()):
                return
            is_suggested = workflow.info().is_continue_as_new_suggested()
            if is_suggested or self._updates >= self._state.updates_a_run:
                workflow.continue_as_new(self._state.to_json())

    @workflow.update(name=names.SET_ABSENCE, description="Internal: who is away, and until when")
    @input.raw_payload_handler
    def set_absence(self, change: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        """Replace the absence of a person, or end it."""
        self._state, self._has_changed = self._changed(change), True
        self._updates += 1

    @set_absence.validator
    @input.raw_payload_handler
    def _check_set_absence(self, change: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        try:
            self._changed(change)
        except input.InvalidInputError as error:
            input.fail(names.INVALID_REQUEST, str(error))

    @workflow.query(name=names.READ, description="Who is away, and until when")
    def read(self) -> dict[str, Any]:
        """Return the `Absences`."""
        return self._state.to_json()

    def details(self) -> str:
        """Return the current details that Temporal's UI shows, in Markdown."""
        return f"{len(self._state.absences)} absences: run the query `{names.READ}`."

    def _changed(self, change: RawValue) -> absences.Absences:
        """Return the state with a change, or raise `InvalidInputError`."""
        example, value = '{"person": …, "away": …}', input.payload_value(change)
        new, now = input.parse_model(value, absences.Absence, example), workflow.now()
        # A name belongs to its issuer: `ada @ other` has an absence of their own.
        name, kept = normalized_person(new.person, with_issuer=True), self._state.after(now)
        kept = [one for one in kept if normalized_person(one.person, with_issuer=True) != name]
        new_ones = [] if new.away is None else [new]
        state = self._state.model_copy(update={"absences": [*kept, *new_ones]})
        if (away := new.away) is None:
            return state
        same = [each for each in kept if each.away and is_same_person(each.away.to, away.to)]
        if is_same_person(away.to, new.person):
            raise input.InvalidInputError("the substitute is the one who is away; name another")
        if away.until <= now:
            raise input.InvalidInputError("the absence is over already; write a later end")
        if len(same) >= MAX_REPRESENTED:
            wrong = f"{MAX_REPRESENTED} people have this substitute; name another one"
            raise input.InvalidInputError(wrong)
        if len(kept) >= absences.MAX_ABSENCES or json_size(state.to_json()) > MAX_STATE_BYTES:
            raise input.InvalidInputError("there are too many absences; try again later")
        return state


@workflow.defn(name=names.ABSENCES_WORKFLOW, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class MovingAbsencesWorkflow(AbsencesWorkflow):
    """Absences on workers that are builds of a deployment: they move to the current build."""

    @workflow.run
    @input.raw_payload_handler
    async def run(self, state: RawValue = input.MISSING_PAYLOAD, *more: Any) -> None:
        """Keep absences, as any such workflow does."""
        await super().run(state, *more)
