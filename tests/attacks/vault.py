"""A run that pays with a person's leave alone, and the ledger of what it paid."""

from collections.abc import Sequence
from typing import Any

from holdfast.schemas.internal.solution import Solution, WrittenCall
from holdfast.schemas.tool import ApprovalPolicy, ResolvedTool
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.call.states import ToolCall
from holdfast.workflows.engine.phases import RunCalls
from tests.engine.driver import Play, call, reply, tool

NUMBER = {"type": "number"}
AMOUNT = {"type": "object", "properties": {"amount": NUMBER, "note": {}}, "required": ["amount"]}


def pay(policy: dict[str, Any] | None = None, **more: Any) -> ResolvedTool:
    """The tool that is attacked."""
    own = ApprovalPolicy.model_validate(policy or {})
    given = {"side_effects": True, "idempotent": False, "label": "Pay", **more}
    return tool("pay", **{"parameters": AMOUNT, **given}, approval=own)


PAYS = call("pay", {"amount": 5})


class Vault(Play):
    """A run whose model makes these calls, answer by answer.

    `paid` is the ledger: what `pay` was executed with. `shown` is what people were asked.
    Only the people named in `decisions` decide.
    """

    def __init__(
        self,
        *answers: Sequence[WrittenCall] | Solution,
        tools: Sequence[ResolvedTool] = (pay(),),
        outcomes: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        self.paid: list[Any] = []
        self.tools_paid_with: list[ResolvedTool] = []

        def paid(one: ToolCall) -> Any:
            self.paid.append(one.arguments)
            self.tools_paid_with.append(one.tool)
            return {"paid": one.arguments}

        model = [each if isinstance(each, Solution) else reply("", *each) for each in answers]
        done = more.pop("done", reply("done"))
        ends = {"pay": paid, **(outcomes or {})}
        people = {one: list(said) for one, said in more.pop("decisions", {}).items()}
        super().__init__(*tools, model=[*model, done], outcomes=ends, decisions=people, **more)

    def ask(self, question: Question) -> None:
        """Let those decide who are there; then the time runs out."""
        said = self.decisions.get(question.call_id, [])
        while question.ruling is None and not self.run.needs_no_decision(question):
            self.decide(said.pop(0) if said else "expire", question)

    @property
    def shown(self) -> list[dict[str, Any]]:
        """What people were asked, in order."""
        return [entry["approval"] for entry in self.records("confirmation_required")]

    def to_question(self) -> Question:
        """Continue until a person is asked about a call."""
        while not self.desk.list_open():
            step = self.next()
            if isinstance(step, RunCalls):
                self.decided(self.run.calls.check_and_start(step.turn, step.turn.calls))
            else:
                self.take(step)
        return self.desk.list_open()[0]
