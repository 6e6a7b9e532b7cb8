"""The runs of a page's state: what they answer, in place of Temporal and of the loaders.

with StatedRuns(state, "order-7").answering():
    ...  # the inbox reads the state
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from datetime import UTC, datetime, timedelta, tzinfo
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from holdfast.client.errors import (
    NO_SUCH,
    UNREACHABLE,
    DecisionRejectedError,
    HoldfastError,
    NoWorkerError,
)
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.records.run_diff import RecordedRun
from holdfast.client.remote_run import RunStart
from holdfast.client.result import RunEnding
from holdfast.client.run import Run
from holdfast.client.run_lists import RunListing
from holdfast.client.stream.heartbeats import CallProgress, PendingActivity
from holdfast.client.stream.run_watch import RunDescription
from holdfast.runtime import absences, text_safety
from holdfast.schemas import names
from holdfast.schemas.base import rfc3339
from holdfast.schemas.decision import PendingApproval, Receipt, digest_of, nonce_of
from holdfast.schemas.internal.absences import Absences
from holdfast.schemas.internal.run_comparison import ComparedRun
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.schemas.run import Fork, RunReport, RunResult
from holdfast.schemas.tool import ShownTool
from holdfast.web import app, away, home, pages, services
from holdfast.web.api import operations
from holdfast.web.auth.permissions import ALL, RunAccess
from holdfast.web.call import loader
from holdfast.web.call.history import history_of
from holdfast.web.home import EndedRun, Figures
from holdfast.web.listing import page_query, rows
from holdfast.web.listing.pending_runs import PendingList, PendingRuns
from holdfast.web.run import routes as run_routes
from holdfast.web.run import timeline, view
from holdfast.web.run.snapshot import EntryRange, LoadedRun, RunInfo
from holdfast.web.services import Services

NOON: Final = datetime(2026, 3, 2, 12, tzinfo=UTC)
CALL: Final = "t1c1"
_CLOCKS: Final = (absences, away, home, text_safety, pages, rows, page_query, timeline)
_TIME: Final = re.compile(r"([+-]\d+) (s|min|h|d)")
_UNITS: Final = {"s": 1, "min": 60, "h": 3600, "d": 86400}
_TIMES: Final = ("started", "since", "until", "ended", "next_attempt_at")
_DECIDED: Final = re.compile(r"(\w+)(?: by (.+?))?(, signed)?")
_WORKING: Final = {"starts": "tool_start", "ends": "tool_end"}
_USAGE: Final = dict.fromkeys(("inputTokens", "outputTokens", "cachedTokens", "cost"))


class _Instances(type):
    """Any time is an instance, as it is of the class that this one replaces."""

    def __instancecheck__(cls, one: object) -> bool:
        return isinstance(one, datetime)


class Noon(datetime, metaclass=_Instances):
    """The clock of the pages."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Any:
        return NOON.astimezone(tz)


def with_times(said: Any) -> Any:
    """Return a stated value with its times: `-3 min` is three minutes before noon."""
    if isinstance(said, str) and (found := _TIME.fullmatch(said)):
        return rfc3339(NOON + timedelta(seconds=int(found[1]) * _UNITS[found[2]]))
    if isinstance(said, dict):
        return {name: with_times(one) for name, one in said.items()}
    return [*map(with_times, said)] if isinstance(said, list) else said


def approval_of(said: dict[str, Any], run_id: str) -> PendingApproval:
    """Return a pending approval; what is not stated is that of an ordinary call."""
    said = {"callId": CALL, "kind": "call", "tool": "pay", "label": "Pay", "arguments": {}} | said
    said = with_times({"requestedAt": "-3 min", "expiresAt": "+1 d", **said})
    if said["kind"] == "plan":
        calls = enumerate(said["arguments"]["calls"], start=1)
        planned = [{"id": f"t1c{n}", "tool": "pay", "arguments": {}, **call} for n, call in calls]
        said["arguments"] = {"calls": planned}
    round_ = said.pop("round", 1)
    digest = digest_of(said["tool"], said["arguments"], said["kind"], round_, said.get("form"))
    said["decisions"] = [decided_of(one, digest) for one in said.get("decisions", [])]
    nonce = nonce_of(run_id, said["callId"], round_)
    return PendingApproval.read({"digest": digest, "nonce": nonce, **said})


def decided_of(said: Any, digest: str) -> dict[str, Any]:
    """Return a decision that was made: `approve by ada`, or its fields."""
    if isinstance(said, str) and (found := _DECIDED.fullmatch(said)):
        said = {"decision": found[1], "by": found[2], "signed": bool(found[3])}
    return {"at": rfc3339(NOON - timedelta(minutes=2)), "digest": digest, **said}


def log_of(said: list[Any], run_id: str) -> list[dict[str, Any]]:
    """Return the entries of a log, a second apart."""
    found, asked = list[dict[str, Any]](), approval_of({}, run_id)
    for n, one in enumerate(said, start=1):
        entry: dict[str, Any] = {one: None} if isinstance(one, str) else dict(one)
        time = rfc3339(NOON + timedelta(minutes=-10, seconds=n))
        common = {"n": n, "at": time, "turn": 1, "callId": asked.call_id, "tool": "pay"}
        if "ask" in entry:
            asked = approval_of(entry.pop("ask") or {}, run_id)
            common["callId"] = asked.call_id
            entry |= {"type": "confirmation_required", "approval": asked.to_json()}
        elif "decide" in entry:
            made = decided_of(entry.pop("decide"), asked.digest)
            entry = {"type": "decision", "decided": made, "outcome": "decided", **entry}
        elif "says" in entry:
            content, call_id = entry.pop("says"), entry.get("callId", asked.call_id)
            message = {"role": "tool", "callId": call_id, "content": content}
            entry |= {"type": "message", "message": message}
        elif "fails" in entry:
            error = {"code": "tool_error", "message": entry.pop("fails")}
            entry |= {"type": "tool_end", "error": error}
        elif (word := next(iter(entry))) in _WORKING:
            entry = {"type": _WORKING[word]}
        found.append({**common, **entry})
    return found


def run_info(run_id: str, said: dict[str, Any]) -> RunInfo:
    """Return what Temporal knows of a run."""
    known: dict[str, Any] = {"task_queue": "desk", "status": "running", "agent": "buyer"}
    known |= {"execution": f"{run_id}-execution", "started": "-1 h", **said}
    activities = [activity_of(one) for one in known.pop("activities", [])]
    known = {name: tuple(one) if isinstance(one, list) else one for name, one in known.items()}
    known |= {"origin": Fork.read(known["origin"])} if "origin" in known else {}
    return RunInfo(id=run_id, activities=tuple(activities), **_fields(known))


def activity_of(said: dict[str, Any]) -> PendingActivity:
    """Return a running activity."""
    said = _fields(said)
    if "progress" in said:
        said["progress"] = CallProgress(CALL, 1, said["progress"])
    return PendingActivity(**said)


def _fields(said: dict[str, Any]) -> dict[str, Any]:
    """Return fields with their times as times."""
    return {
        name: datetime.fromisoformat(one) if name in _TIMES and one else one
        for name, one in with_times(said).items()
    }


def branch_of(said: dict[str, Any]) -> view.DelegateBranch:
    """Return a delegate, with its own."""
    said = {"tone": "plain", **said}
    children = [branch_of(one) for one in said.pop("children", [])]
    return view.DelegateBranch(**said, children=children)


class StatedRuns:
    """The runs of a state; `id` is the run of the address."""

    def __init__(self, said: dict[str, Any], id: str) -> None:
        self.id, self.said = id, said
        self.sent = list[dict[str, Any]]()  # the absences that the inbox has set
        listed: dict[str, Any] = said.get("runs", {})
        self.answers = {
            name: self._answer(one.pop("ask", None), name) for name, one in listed.items()
        }
        self.answers.setdefault(id, self._answer(said.get("ask", []), id))
        of_list = {"since": "-3 min", "until": "+1 d"}
        self.listed = [run_info(name, {**of_list, **one}) for name, one in listed.items()]
        self.info = run_info(id, said.get("run", {}))
        self.log = log_of(said.get("log", []), id)
        report = {"status": "running", "log": {"entries": len(self.log)}}
        self.report = RunReport.read({**report, **said.get("report", {})})
        plain = {"parameters": {"type": "object"}, "approval": {}}
        tools = [ShownTool.read({**plain, **one}) for one in said.get("tools", [])]
        self.tools = {one.name: one for one in tools}

    @staticmethod
    def _answer(said: Any, run_id: str) -> list[PendingApproval] | HoldfastError:
        if isinstance(said, str):
            return HoldfastError(said, "start a worker", UNREACHABLE)
        several = said if isinstance(said, list) else [said or {}]
        return [approval_of(one, run_id) for one in several]

    @property
    def pending(self) -> list[PendingApproval]:
        """Return the pending approvals of the run of the address."""
        answer = self.answers[self.id]
        return answer if isinstance(answer, list) else []

    def choice(self, said: str) -> SelectedCall:
        """Return a selected call, `order-7/t1c1`; with `!`, as it was before a change."""
        run_id, call_id = said.removesuffix("!").split("/")
        answer = self.answers[run_id]
        for one in answer if isinstance(answer, list) else ():
            if one.call_id == call_id and said[-1] != "!":
                return SelectedCall.of(run_id, one)
        return SelectedCall(run_id, call_id, "another digest")

    # What the loaders return.

    async def load_call(
        self, _: Services, run_id: str, call_id: str, access: RunAccess | None = None
    ) -> loader.OpenApproval | loader.ClosedApproval:
        """Return the call of the page."""
        known = RunListing(**{one.name: getattr(self.info, one.name) for one in fields(RunListing)})
        history = history_of(self.log, run_id, call_id, access, self.report.calls)
        here = [one for one in self.pending if one.call_id == call_id]
        if here:
            others = [one for one in self.pending if one is not here[0]]
            found = (known, here[0], others, history, self.report, self.tools)
            return loader.OpenApproval(*found, self.info.summary)
        if history.question is None:
            wrong = f"no call {call_id} of run {run_id} is pending"
            raise HoldfastError(wrong, "see the pending approvals, or the run", NO_SUCH)
        ended = (history, history.question, self.report, self.info.ended is not None)
        return loader.ClosedApproval(known, *ended, tools=self.tools)

    async def take_snapshot(self, _: Services, __: str, span: EntryRange, ___: float) -> LoadedRun:
        """Return the run of the page."""
        if (silent := self.said.get("silent")) is not None:
            problem = NoWorkerError("desk") if silent == "no worker" else None
            return LoadedRun(self.info, ending=self.ending, problem=problem)
        first, last = span.bounds(len(self.log))
        shown = self.log[:first], self.log[first:last], self.ending
        return LoadedRun(self.info, self.report, self.pending, *shown, has_answered=True)

    @property
    def ending(self) -> RunEnding | None:
        """Return how the run of the page ended."""
        said = dict(self.said.get("ending", {}))
        if "result" in said:
            made = {"status": said["status"], "state": {}, "turns": 1, "calls": 0, "usage": _USAGE}
            said["result"] = RunResult.read({**made, **said["result"]})
        return RunEnding(**said) if said else None

    # What runs and lists return.

    async def approvals(self, run_id: str) -> list[PendingApproval]:
        """Return what a run answers that is queried."""
        answer = self.answers[run_id]
        if isinstance(answer, HoldfastError):
            raise answer
        return answer

    async def decide(self, *_: Any) -> Receipt:
        """Answer a decision."""
        if "refuses" in self.said:
            raise DecisionRejectedError(self.id, *self.said["refuses"])
        if "lost" in self.said:
            raise NoWorkerError("desk")
        receipt = {"callId": CALL, "decision": "approve", "decided": True}
        return Receipt.read({**receipt, **self.said.get("receipt", {})})

    def recorded(self, run: Run, **_: Any) -> RecordedRun:
        """Return a run to compare."""
        said = {"log": [], "state": {}, "output": None, **self.said["compared"][run.id]}
        log, state, output = (said.pop(name) for name in ("log", "state", "output"))
        about = ComparedRun.read({"run": run.id, "agent": "buyer", "status": "completed", **said})
        return RecordedRun(about, log_of(log, run.id), state, output)

    async def figures(self, *_: Any) -> tuple[list[Any], int, list[EndedRun]]:
        """Return the numbers of the home page."""
        said = self.said["figures"]
        ended = enumerate(said.get("ended", []))
        counts = [*said.get("counts", {}).items()]
        found = [EndedRun(run_info(f"run-{n}", {}), **one) for n, one in ended]
        return counts, said.get("before", 0), found

    def describe(self) -> Any:
        """What Temporal has of the run."""
        agent = SimpleNamespace(key=SimpleNamespace(name=names.AGENT_NAME), value=self.info.agent)
        return SimpleNamespace(
            id=self.info.id,
            close_time=self.info.ended,
            typed_search_attributes=[agent] if self.info.agent else [],
            task_queue="holdfast",
            workflow_type=names.AGENT_WORKFLOW,
            **dict.fromkeys(("run_id", "start_time", "status", "parent_id")),
        )

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Have the inbox read this state."""
        starts = {
            one.id: RunStart(one.started, one.summary, one.origin)
            for one in [self.info, *self.listed]
        }
        page = [*self.listed], b"more" if self.said.get("more") else None
        pending = PendingList(
            self.listed, **{"count": len(self.listed), **self.said.get("list", {})}
        )
        seen = RunDescription(("r", 1), closed=self.info.ended is not None, streaming=None)
        rights = ALL & frozenset(self.said.get("person", {}).get("may", ALL))
        branches, forks = (
            [branch_of(one) for one in self.said.get(name, [])] for name in ("delegates", "forks")
        )
        state = self.said.get("state", {})
        known = Absences.read(with_times({"absences": self.said.get("absences", [])})).absences
        returned: dict[tuple[Any, str], Any] = {
            (PendingRuns, "read"): lambda _: pending,
            (HoldfastClient, "list_page"): lambda *_: page,
            (HoldfastClient, "set_absence"): lambda _, one: self.sent.append(one.to_json()),
            (absences.AbsenceReader, "read"): lambda _: known,
            (services, "read_recorded_run"): self.recorded,
            (app, "find_similar_calls"): lambda *_: [],
            (Services, "access"): lambda _, person, __: RunAccess(person, rights),
            (view, "read_branches"): lambda *_: (branches, forks, False),
            (Run, "page"): lambda _, __, after, limit: self.log[after : after + limit],
            (Run, "start_info"): lambda run: starts[run.id],
            (Run, "ending"): lambda *_, **__: self.ending or RunEnding("running"),
            (Run, "observe"): lambda _: seen,
            (Run, "state"): lambda _, instance="shared": state[instance],
            (Run, "status"): lambda _: self.report,
            (Run, "describe"): lambda _: self.describe(),
            **{(Run, act): lambda *_: None for act in ("post", "withdraw", "close", "cancel")},
        }
        patches: dict[tuple[Any, str], Any] = {
            (loader, "load_call"): self.load_call,
            (app, "load_call"): self.load_call,
            (run_routes, "take_snapshot"): self.take_snapshot,
            (Run, "approvals"): lambda run: self.approvals(run.id),
            (Run, "decide"): self.decide,
            (Figures, "read"): self.figures,
            # Describing the HTTP API takes half a second.
            (operations, "routes"): lambda _: [],
            **{(module, "datetime"): Noon for module in _CLOCKS},
            **{place: _returning(function) for place, function in returned.items()},
        }
        with ExitStack() as stack:
            for (place, name), instead in patches.items():
                stack.enter_context(patch.object(place, name, instead))
            yield


def _returning(function: Any) -> Any:
    """Return a coroutine function that returns what a function does."""

    async def answer(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return answer
