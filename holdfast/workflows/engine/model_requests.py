"""The requests of a run to the model, one after the other, and the hooks around each.

Events: requested, request closed.

    begin ─► _beforeModel ─► a summary that is due, or the turn ─┬─► answered
                                                                 └─► failed ─► _onModelError ─┐
    begin ◄─ another attempt, or another model ◄──────────────────────────────────────────────┤
             an output in place of an answer, a stop, or the failure of the run ◄─────────────┘

An output of the model goes to `_afterAnswer`: it is the run's, or another one is, or `begin` again.

Without the hook, or without a ruling of it, the next model of the agent's list is used; after the
last one, the run fails. A request that a model refuses is no answer: it costs nothing. An answer
that the provider ends without one costs, and is requested again; twice in a row is a failure.
"""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from holdfast.schemas import names
from holdfast.schemas.agent import ModelSettings
from holdfast.schemas.internal.model_request import AnswerRuling, FailureRuling
from holdfast.schemas.internal.solution import NO_USAGE, Solution, Usage
from holdfast.schemas.log_entry import TurnEndEntry, TurnStartEntry
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.names import MODEL_ERROR
from holdfast.schemas.tool import ActivityBinding
from holdfast.validation.arguments import InvalidArguments, fit
from holdfast.workflows.engine.call import activities
from holdfast.workflows.engine.conversation.summaries import CannotShorten
from holdfast.workflows.engine.log.log import SEALED_BYTES
from holdfast.workflows.engine.model import request_hooks
from holdfast.workflows.engine.phases import AskModel, RunEvent, RunPhases
from holdfast.workflows.engine.request_settings import TOO_LONG, RequestSettings
from holdfast.workflows.engine.run_limits import RunLimits
from holdfast.workflows.engine.run_messages import RunMessages
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.state.references import as_text


class ModelRequests:
    """The requests of one run, and the turns that they begin.

    `in_turn`: a turn has started that the model has not answered.
    """

    def __init__(
        self,
        state: RunState,
        phases: RunPhases,
        settings: RequestSettings,
        messages: RunMessages,
        limits: RunLimits,
        fail: Callable[[str, str], None],
    ) -> None:
        self._state = state
        self._phases = phases
        self._settings = settings
        self._choice = settings.choice
        self._summaries = settings.summaries
        self._messages = messages
        self._limits = limits
        self._fail = fail
        self.in_turn = False
        # Which model answered the open turn, for the log.
        self._answered_by: str | None = None
        self._genai_prices: str | None = None
        # The pause before another attempt, as a hook set it.
        self._pause: timedelta | None = None
        # The uses of each hook, by turn.
        self._hook_uses: Counter[tuple[activities.HookName, int]] = Counter()

    def begin(self) -> None:
        """Request a summary that is due, or the next turn, from the model."""
        if (activity := self._settings.agent.hooks.before_model) is None:
            self._request()
            return
        self._begin_turn()
        self._settings.change(None)
        tools = [tool.name for tool in self._state.tools]
        messages = request_hooks.view_messages(self._state.log, self._summaries.progress.since)
        view = {"skill": self._state.skill, "tools": tools, **messages}
        self._ask_hook("beforeModel", activity, view)

    def hook_answered(self, hook: activities.Hook, result: activities.HookResult) -> None:
        """Process the value of a hook; one that fails, fails the run."""
        self._phases.move(RunEvent.REQUEST_CLOSED)
        try:
            value = activities.hook_value(hook.name, result)
            if hook.name == "beforeModel":
                state, since = self._state, self._summaries.progress.since
                agent, tools = self._settings.agent, state.tools
                self._settings.change(
                    request_hooks.changed_request(value, agent, tools, state.log, since)
                )
                self._request()
            elif hook.name == "afterAnswer":
                self._handle_answer(hook.arguments[0]["output"], value)
            else:
                self._handle_failure(hook.n, hook.arguments[0]["error"]["message"], value)
        except activities.RunStopped as stop:
            self._messages.stop(str(stop))
        except activities.CallRefused as refusal:
            is_answered = hook.name == "afterAnswer"
            self._fail(refusal.error.code if is_answered else MODEL_ERROR, str(refusal))

    def conclude(self, output: Any) -> None:
        """Answer with an output, once the hook `_afterAnswer` has let it pass."""
        if (activity := self._choice.agent.hooks.after_answer) is None:
            self._messages.answer(output)
        else:
            self._ask_hook("afterAnswer", activity, {"output": output})

    def ask_again(self, why: str) -> None:
        """Send the model the reason why its answer is no output, which costs a turn."""
        self._state.progress.note_rejection(why)
        self._state.log.add_message(ChatMessage(role="user", content=why))

    def turn_answered(self, solution: Solution) -> bool:
        """Count the answer of a turn; return False if there is none to read."""
        model = self._settings.agent.own_model
        if self._is_refused_again(solution, model):
            return False
        self._phases.move(RunEvent.REQUEST_CLOSED)
        if self.charge_answer(solution, model, is_turn=True):
            self.in_turn, self._answered_by = False, self._choice.label(model)
            self._genai_prices = solution.genai_prices
            self._limits.note_refusals([])
            self._messages.mailbox.mark_read()
            return True
        if solution.over_budget:
            self._limits.note_refusals(solution.over_budget)
        elif solution.no_tools:
            self._choice.compose_calls(model)
        elif not self.next_model(TOO_LONG):
            self._summaries.turn_refused(solution)
        return False

    def summary_answered(self, solution: Solution) -> None:
        """Process the model's summary of the older part of the conversation."""
        model = self._settings.agent.own_model
        if self._is_refused_again(solution, model):
            return
        self._phases.move(RunEvent.REQUEST_CLOSED)
        is_answer = self.charge_answer(solution, model)
        if solution.over_budget:
            self._limits.note_refusals(solution.over_budget)
        elif (is_answer and not solution.refused) or solution.too_long:
            self._summaries.summary_answered(solution)
        elif solution.no_tools:
            self._choice.compose_calls(model)

    def _is_refused_again(self, solution: Solution, model: ModelSettings) -> bool:
        """Treat the second answer in a row that the provider ended without one as a failure."""
        is_refused = solution.refused is not None
        is_second = self._state.progress.note_refusal(is_refused=is_refused)
        if is_second:
            self.charge_answer(solution, model)
            self.failed(str(solution.refused))
        return is_second

    def charge_answer(
        self, solution: Solution, model: ModelSettings, *, is_turn: bool = False
    ) -> bool:
        """Count an answer, and return True; a request that the model refuses has none: it is free.

        A model can refuse a conversation as too long, and tools, if it was offered some. Answers
        that ended in a failure before it did are counted.
        """
        notices, meter = list(solution.notices), self._state.meter
        has_no_tools = solution.no_tools and self._choice.agent.calling == "native"
        is_answer = not (solution.too_long or has_no_tools or solution.over_budget)
        if not is_answer and solution.failed_usage is not None:
            self.charge_failed(model, solution.failed_usage)
        if is_answer:
            meter.charge(solution.usage, turns=int(is_turn))
            self._choice.count(model, solution.usage, turns=int(is_turn))
            unknown = meter.unmetered_budget()
            if unknown is not None and not self._state.progress.note_unknown_usage():
                why = "the provider does not report its usage"
                notices.append(f"{why}: the budget {unknown} cannot be enforced")
        for notice in notices:
            self._state.log.add_notice(notice)
        return is_answer

    def charge_failed(self, model: ModelSettings, usage: Usage) -> None:
        """Count the answers to a request that ended in a failure, and no request."""
        if usage != NO_USAGE:
            self._state.meter.charge(usage, requests=0)
            self._choice.count(model, usage, turns=0)

    def failed(self, message: str) -> None:
        """Ask the hook `_onModelError`, go to the next model, or end the run with the error."""
        request = self._phases.step
        self._phases.move(RunEvent.REQUEST_CLOSED)
        is_summary = isinstance(request, AskModel) and request.pointer.summary
        self._recover(message, may_ask=not is_summary)

    def _recover(self, message: str, *, may_ask: bool) -> None:
        activity = self._choice.agent.hooks.on_model_error
        is_last = self._state.progress.finalizing is not None
        if activity is None or not may_ask or is_last or self._state.is_choosing_skill:
            self._use_next_model(message)
        else:
            self._ask_hook("onModelError", activity, {"error": {"message": message}})

    def next_model(self, why: str, failed: ModelSettings | None = None) -> bool:
        """Go to the agent's next model, unless the run left the `failed` one before.

        Returns:
            Whether there is another model.
        """
        if failed is not None and failed != self._choice.agent.model:
            return True
        if not self._choice.next_model(failed or self._settings.agent.own_model, why):
            return False
        self._summaries.use_model(self._choice.agent.own_model.name)
        return True

    def give_up(self) -> None:
        """Give up the request or the hook that runs, and its turn."""
        self._phases.move(RunEvent.REQUEST_CLOSED)
        self.leave_turn()

    def leave_turn(self) -> None:
        """End a turn that has started and that the model has not answered, if there is one."""
        if self.in_turn:
            self.in_turn = False
            self.end_turn()

    def end_turn(self) -> None:
        """Log the end of a turn."""
        meter, log = self._state.meter, self._state.log
        for name in meter.pass_thresholds():
            self._limits.log_threshold(name)
        turn, model, version = meter.turns, self._answered_by, self._genai_prices
        entry = TurnEndEntry(turn=turn, usage=meter.usage(), model=model, genai_prices=version)
        log.append(entry)
        self._answered_by = self._genai_prices = None
        log.seal(SEALED_BYTES)

    def _request(self) -> None:
        turn = self._state.meter.turns + 1
        try:
            pointer = self._summaries.due_request(turn)
        except CannotShorten as error:
            self._recover(str(error), may_ask=True)
            return
        if pointer is None:
            self._begin_turn()
            pointer = self._summaries.pointer(turn)
        self._phases.move(RunEvent.REQUESTED, AskModel(pointer, self._pause))
        self._pause = None

    def _begin_turn(self) -> None:
        if not self.in_turn:
            self.in_turn = True
            self._state.log.append(TurnStartEntry(turn=self._state.meter.turns + 1))

    def _ask_hook(
        self, name: activities.HookName, activity: ActivityBinding, view: dict[str, Any]
    ) -> None:
        agent, turn = self._settings.agent, self._state.meter.turns + (name != "afterAnswer")
        self._hook_uses[name, turn] += 1
        n = self._hook_uses[name, turn]
        about = {"agent": agent.name, "turn": turn, "model": agent.own_model.to_json()}
        attempt = {"attempt": n} if name == "onModelError" else {}
        view = {**about, **attempt, **view}
        hook = activities.Hook(name, names.turn_id(turn), n, activity, [view])
        self._phases.move(RunEvent.REQUESTED, hook)

    def _handle_failure(self, attempt: int, failure: str, value: Any) -> None:
        """Apply the result of `_onModelError` to a failure; it may add a few attempts to a turn."""
        if value in (None, {}):
            self._use_next_model(failure)
            return
        ruling = request_hooks.read_value(value, FailureRuling, "onModelError")
        if ruling.stop is not None:
            raise activities.RunStopped(ruling.stop)
        if ruling.fail is not None:
            self._fail(MODEL_ERROR, ruling.fail or failure)
        elif ruling.output is not None:
            self._answer_for_model(ruling.output, failure)
        elif attempt > request_hooks.MAX_FURTHER_ATTEMPTS:
            why = f"`_onModelError` may add {request_hooks.MAX_FURTHER_ATTEMPTS} attempts to a turn"
            self._fail(MODEL_ERROR, f"{failure} ({why})")
        elif ruling.model is None:
            self._pause = min(ruling.after, request_hooks.MAX_PAUSE)
        else:
            other = request_hooks.patched_model(
                self._choice.agent.own_model, ruling.model, "onModelError"
            )
            self._choice.use(other, self._settings.agent.own_model, failure)
            self._summaries.use_model(other.name)

    def _handle_answer(self, output: Any, value: Any) -> None:
        """Apply the result of `_afterAnswer` to an output."""
        if value in (None, {}):
            self._messages.answer(output)
            return
        ruling = request_hooks.read_value(value, AnswerRuling, "afterAnswer")
        if ruling.stop is not None:
            raise activities.RunStopped(ruling.stop)
        if ruling.again is not None:
            self._state.log.add_notice("the hook `_afterAnswer` sent the answer back")
            self.ask_again(ruling.again)
            return
        output = self._fitting(ruling.output, "afterAnswer")
        self._state.log.add_notice("the hook `_afterAnswer` replaced the output")
        self._messages.answer(output)

    def _fitting(self, output: Any, hook: activities.HookName) -> Any:
        """Return an output of a hook, which has to fit the agent's."""
        schema = self._choice.written.output
        try:
            budget = self._state.limits.budget()
            return as_text(output) if schema is None else fit(output, schema, budget)
        except InvalidArguments as error:
            why = f"its `output` does not fit: {error}"
            raise activities.invalid_hook_result(hook, why) from None

    def _answer_for_model(self, output: Any, failure: str) -> None:
        """Take an output in place of the model's answer."""
        output = self._fitting(output, "onModelError")
        text = f"the hook `_onModelError` answered for the model, which failed: {failure}"
        self._state.log.add_notice(text)
        self._state.log.add_message(ChatMessage(role="assistant", content=as_text(output)))
        self._limits.note_refusals([])
        self._messages.mailbox.mark_read()
        self.leave_turn()
        self._messages.answer(output)

    def _use_next_model(self, failure: str) -> None:
        if not self.next_model(failure):
            self._fail(MODEL_ERROR, failure)
