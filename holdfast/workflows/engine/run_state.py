"""The mutable state of one run: its log, and the state that is computed from it.

`RunProgress` is what a run remembers between two turns besides:

    running ─► completed ─► running again, with the next message
       ├─────► stopped
       └─────► budget_exceeded; in a conversation completed, without an output for its message
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from pydantic import JsonValue

from holdfast.runtime.narration.arguments import run_title
from holdfast.schemas.agent import AgentRules, ResolvedAgent, ToolChoice
from holdfast.schemas.base import Lenient, json_size, rfc3339
from holdfast.schemas.internal import continue_as_new
from holdfast.schemas.internal.shared_budgets import NO_SCOPES, BudgetScopes
from holdfast.schemas.log_entry import SkillChooser, SkillEntry, WriteEntry
from holdfast.schemas.phrases import quote_value, suggest_names
from holdfast.schemas.reference import Path
from holdfast.schemas.run import CallRequest, Principal, PrincipalToken, RunRequest
from holdfast.schemas.tool import OutputMethod, ShownTool
from holdfast.validation.schema_node import ValidationLimits
from holdfast.validation.validator import new_errors
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.approvals.policy import effective_policy, effective_rules
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.budget.meter import Meter
from holdfast.workflows.engine.log.log import Log, LogSnapshot
from holdfast.workflows.engine.skills import allowed_tools, skill_of
from holdfast.workflows.engine.state.data import MISSING, CannotWrite, Data
from holdfast.workflows.engine.state.redaction import Redaction, Redactions

# Providers match a result with its call by the nearest id.
MAX_SEEN_IDS = 1_024
MAX_REASON_CHARACTERS = 300


class RunProgress(Lenient, frozen=False):
    """What a run between two turns remembers besides its log, and, as JSON, a part of its snapshot.

    `choice` is the tool choice of the run, and `settled_after` the number of turns at the time when
    its skill was chosen. `finalizing` is the number of turns at the time of the request to finish;
    `cut_told`: the model has read that its last text was cut off; `is_refused`: the provider ended
    the last answer without one; `unknown_told`: the log has that the provider reports no usage.
    `said` is the latest text of the model. Messages up to number
    `answered_up_to` have the `output` as their answer. `exceeded` is the budget that ended the run,
    or the last message of a conversation, before an answer, and `reason` why in words. The last
    `rejections` answers were no output, the newest of them because of `rejected`.
    """

    seen_ids: list[str] = []
    choice: ToolChoice = "auto"
    output: JsonValue = None
    said: str | None = None
    answered_up_to: int = 0
    settled_after: int = 0
    finalizing: int | None = None
    cut_told: bool = False
    is_refused: bool = False
    unknown_told: bool = False
    exceeded: str | None = None
    reason: str | None = None
    rejections: int = 0
    rejected: str | None = None

    def record_answer(self, text: str, seen: Iterable[str]) -> None:
        self.said = text or self.said
        self.seen_ids = list(seen)[-MAX_SEEN_IDS:]

    def settle(self, turns: int, choice: ToolChoice) -> None:
        """Record that the run has its skill, with the tool choice of the skill's first turn."""
        self.settled_after, self.choice = turns, choice

    def finalize(self, turns: int) -> None:
        self.finalizing = turns

    def note_cut(self, *, is_told: bool) -> None:
        """Record whether the model has read that its last text was cut off."""
        self.cut_told = is_told

    def note_refusal(self, *, is_refused: bool) -> bool:
        """Record whether the provider ended an answer without one; return whether again."""
        was_refused, self.is_refused = self.is_refused, is_refused
        return was_refused and is_refused

    def note_unknown_usage(self) -> bool:
        """Record that the provider reports no usage; return whether the log has that already."""
        was_told, self.unknown_told = self.unknown_told, True
        return was_told

    def note_rejection(self, why: str | None) -> None:
        """Record why an answer was no output; with None, that it had calls."""
        self.rejections = 0 if why is None else self.rejections + 1
        self.rejected = why and why[:MAX_REASON_CHARACTERS]

    def complete(self, output: Any, upto: int) -> None:
        """Answer the messages up to this number with an output."""
        self.output, self.answered_up_to = output, upto
        self.exceeded = self.reason = None
        self.note_rejection(None)

    def stop(self, output: Any) -> None:
        """Set the output of a run that a tool or a hook stopped."""
        self.output = output

    def exceed(self, name: str, upto: int | None) -> str:
        """Record a used up budget, of the messages up to a number if set; return the reason."""
        self.exceeded = name
        self.reason = f"the budget {name} is used up"
        if upto is not None:
            self.answered_up_to = upto
        if self.rejections:
            self.reason += f". Answers without an output in a row: {self.rejections}."
            self.reason += f" The last: {self.rejected}"
        self.note_rejection(None)
        return self.reason

    def go_on(self) -> None:
        """Accept calls again after an answer, because a message arrived."""
        self.finalizing = None


# State and output have to fit into the run's result, which has at most two megabytes in total.
MAX_STATE_BYTES = 900_000

# The bytes of a new path step in JSON besides its name.
_STEP_BYTES = 8


Clock = Callable[[], datetime]


class TokenRejected(Exception):
    """A token is not accepted; the message has the reason."""


class RunStateSnapshot(Lenient):
    """The fields from which a run state is built, when a run starts or continues as new."""

    log: LogSnapshot = LogSnapshot()
    meter: Meter
    desk: PendingApprovals
    data: list[continue_as_new.ValueSnapshot] = []
    veils: list[continue_as_new.RedactionSnapshot] = []
    described: list[continue_as_new.DescriptionSnapshot] = []
    started: dict[str, int] = {}
    succeeded: list[str] = []
    skill: str | None = None
    reset: bool = False


class RunState:
    """The mutable state of one run that decisions on calls read.

    It is that of a snapshot, with the log in these `pages`. `skill` is the active skill, and
    `tools` can be called with it; `described` is the latest description of the data of a kind (and
    instance); `end_reason` is the reason why the run ends although calls of its turn are open;
    `limits` bound what the run checks, decisions of people aside; `was_reset` means that the run
    was reset and had got further before; `is_delegate` means that it runs a call of another run.
    """

    def __init__(
        self,
        request: RunRequest | CallRequest,
        rules: AgentRules,
        snapshot: RunStateSnapshot,
        clock: Clock,
        pages: Iterable[bytes] = (),
        progress: RunProgress | None = None,
        limits: ValidationLimits | None = None,
    ) -> None:
        # If a token names the principal, the token was checked before the run started.
        assert not isinstance(request.principal, PrincipalToken)
        self.rules = rules
        self.progress = progress or RunProgress()
        self.principal = request.principal
        self.asks_people = request.approvals == "ask"
        self.clock = clock
        self.log = Log(clock, snapshot.log, pages)
        self.data = Data.resumed(snapshot.data)
        self.meter = snapshot.meter
        self.pending = snapshot.desk
        self.started = dict(snapshot.started)
        self.succeeded = dict.fromkeys(snapshot.succeeded)
        self.skill = snapshot.skill
        self.redactions = Redactions.resumed(snapshot.veils)
        self.described = {Path(one.kind, (), one.instance): one for one in snapshot.described}
        self.limits = limits or ValidationLimits()
        self.end_reason: str | None = None
        self.was_reset = snapshot.reset
        self.is_delegate = False
        self.budget_scopes = NO_SCOPES
        # What people are to be notified of and need not decide.
        self.reached: list[Question] = []
        # An upper bound of the size of each kind's data.
        self._sizes: dict[str, int] = {}
        self._allow_tools()

    def snapshot(self) -> RunStateSnapshot:
        """Return all of its state; call it only between two turns."""
        return RunStateSnapshot(
            log=self.log.snapshot(),
            meter=self.meter,
            desk=self.pending,
            data=self.data.snapshot(),
            veils=self.redactions.snapshot(),
            described=list(self.described.values()),
            started=self.started,
            succeeded=list(self.succeeded),
            skill=self.skill,
            reset=self.was_reset,
        )

    def take_skill(self, skill: str, by: SkillChooser, **why: Any) -> None:
        """Activate a skill, and log it, with who chose it and why."""
        if (left := skill_of(self.rules, self.skill)) is not None:
            self.pending.forget_tools(tool.name for tool in left.tools)
        self.log.append(SkillEntry(skill=skill, by=by, **why))
        self.skill = skill
        self._allow_tools()

    def count_in(self, scopes: BudgetScopes) -> None:
        """Have shared budgets count the run in these scopes."""
        self.budget_scopes = scopes

    def offer_tools(self, rules: AgentRules) -> None:
        self.tools = allowed_tools(rules, self.skill)

    def _allow_tools(self) -> None:
        self.offer_tools(self.rules)
        self.is_choosing_skill = bool(self.rules.skills) and self.skill is None

    @property
    def title(self) -> str:
        """Return the title of the run, by that of its agent and by its input; may be empty."""
        rules = self.rules
        schema = rules.input if isinstance(rules, ResolvedAgent) else None
        return run_title(rules.title, self.data["input"], schema)

    def request_end(self, reason: str) -> None:
        """Request the end of the run for this reason, although calls of its turn are open."""
        self.end_reason = reason

    def describe_tools(self) -> str:
        whose = f"agent '{self.rules.name}'" if self.skill is None else f"skill '{self.skill}'"
        return f"{whose}. Allowed: [{', '.join(tool.name for tool in self.tools)}]"

    def show_tool(self, name: Any, *, of_any_skill: bool = False) -> ShownTool:
        """Return a tool as people see it, first of those for calls now, or raise `ValueError`.

        `of_any_skill`: only if its parameters are the same with every skill.
        """
        rules = self.rules
        tools = [*self.tools, *rules.tools, *(tool for one in rules.skills for tool in one.tools)]
        named = [tool for tool in tools if tool.name == name]
        found = named[0] if named else None
        differs = of_any_skill and any(one.parameters != named[0].parameters for one in named)
        if found is None or differs:
            suggestion = suggest_names(str(name), list(dict.fromkeys(tool.name for tool in tools)))
            raise ValueError(f"this run has no tool {quote_value(str(name))}; {suggestion}")
        shown = {name: getattr(found, name) for name in ShownTool.model_fields}
        shown["approval"] = effective_policy(found, rules)
        return ShownTool(**{**shown, "approval_rules": effective_rules(found, rules)})

    def scopes(self) -> list[str]:
        """Return the principal's scopes in this run, limited by the agent's own bound."""
        held = self.principal.scopes if self.principal is not None else []
        most = self.rules.principal_scopes
        return held if most is None else [scope for scope in held if scope in most]

    def renew(self, principal: Principal) -> Principal:
        """Continue with a new token's principal and no more scopes, or raise `TokenRejected`."""
        held, until = self.principal, principal.expires_at
        if held is None or held.expires_at is None:
            raise TokenRejected("the run acts for no principal whose token expires")
        if principal.id != held.id:
            raise TokenRejected("the token is for another principal (`sub`) than the run acts for")
        if until is None or until <= max(held.expires_at, self.clock()):
            raise TokenRejected("the token expires no later than the one before: sign a new one")
        scopes = [scope for scope in held.scopes if scope in principal.scopes]
        self.principal = held.model_copy(update={"scopes": scopes, "expires_at": until})
        text = f"the principal's token was renewed: it expires at {rfc3339(until)}"
        self.log.add_notice(text)
        return self.principal

    def set_data(self, kind: str, value: Any) -> None:
        self.data.set(kind, value)
        self._sizes.pop(kind, None)

    def write(
        self,
        paths: Sequence[Path],
        value: Any,
        method: OutputMethod = "set",
        call_id: str | None = None,
        veil: Redaction | None = None,
    ) -> None:
        """Write a value to all of the places and to the log, or raise `CannotWrite`.

        A place may be in an instance. `veil` is the redaction of the value in the state that
        follows the conversation; without one it is shown unchanged.
        """
        self.data, self._sizes = self.trial_write(self.data, paths, value, method)
        for path in paths:
            self.redactions.write(path, method, veil)
            self.log.append(
                WriteEntry(
                    path=str(path),
                    method=method,
                    value=value,
                    instance=path.instance,
                    call_id=call_id,
                )
            )

    def trial_write(
        self, data: Data, paths: Sequence[Path], value: Any, method: OutputMethod
    ) -> tuple[Data, dict[str, int]]:
        """Return the data and the bounds of its sizes after writes, or raise `CannotWrite`."""
        # The size is known only for the run's own data.
        trial, sizes = data.copy(), dict(self._sizes if data is self.data else {})
        for path in paths:
            trial.set(path.kind, trial.value_after_write(path, method, value), path.instance)
            # Every instance sees a shared write.
            seeing = [None, *trial.instances] if path.instance is None else [path.instance]
            self._check_size(path, value, trial, sizes, len(seeing))
            if path.kind != "state" or self.rules.state is None:
                continue
            for instance in seeing:
                new, old = (each.visible_value("state", instance) for each in (trial, data))
                broken = "; ".join(new_errors(new, old, self.rules.state, self.limits.budget()))
                if broken:
                    whose = "" if instance is None else f" of {instance}"
                    raise CannotWrite(
                        f"{path}: the state{whose} would not fit its schema: {broken}"
                    )
        return trial, sizes

    def _check_size(
        self, path: Path, value: Any, trial: Data, sizes: dict[str, int], seeing: int
    ) -> None:
        """Update an upper bound of the size of a kind's data; compute it if the bound is high."""
        kind = path.kind
        if kind in sizes:
            if path.instance is not None:
                # A shared list or text is copied into the instance.
                sizes[kind] += json_size(trial.own_value(kind, path.instance))
            else:
                steps_bytes = json_size(str(path)) + _STEP_BYTES * len(path.steps)
                sizes[kind] += (json_size(value) + steps_bytes) * seeing
            if sizes[kind] <= MAX_STATE_BYTES:
                return
        own = [trial.own_value(kind, instance) for instance in (None, *trial.instances)]
        sizes[kind] = sum(json_size(one) for one in own if one is not MISSING)
        if sizes[kind] > MAX_STATE_BYTES:
            raise CannotWrite(
                f"{path}: {kind} would have {sizes[kind]} bytes; at most {MAX_STATE_BYTES}"
            )
