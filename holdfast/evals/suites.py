"""Suites: reading the files of `evals/`, and writing cases from recorded runs."""

import json
import re
import shutil
import tempfile
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from temporalio.common import RawValue
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError, FailureError

from holdfast.evals.checks import Outcome
from holdfast.runtime.backtest.run_record import (
    CallRecord,
    End,
    HookRecord,
    MessageRecord,
    QuestionRecord,
    RunRecord,
)
from holdfast.runtime.secrets import Secrets
from holdfast.runtime.settings_files.file_problems import LoadError, UnreadableError
from holdfast.runtime.settings_files.json_and_yaml import read_yaml, write_yaml
from holdfast.runtime.settings_files.source import read_source, read_text
from holdfast.schemas.base import canonical_json
from holdfast.schemas.decision import Decision, Kind, digest_of
from holdfast.schemas.message import Delivered
from holdfast.schemas.names import ErrorCode, call_of
from holdfast.schemas.settings.evals import CaseAnswer, CaseHook, EvalCase, EvalSuite
from holdfast.validation.problems import FixableError

# What a run may be expected to repeat.
RESPECTS: Final = ("output", "calls", "approvals", "state")
_SUFFIXES: Final = (".json", ".yaml", ".yml")
_OF_ITS_RUN = ("agent", "principal")
_PAYLOADS = DataConverter.default.payload_converter


def load_suites(paths: Sequence[Path]) -> dict[str, EvalSuite]:
    """Load suites from files, or from the folders that they are in; a suite is named by its file.

    Raises:
        LoadError: a file is no suite.
        FixableError: there is none, or two have the same name.
    """
    found = dict[str, EvalSuite]()
    for path in paths:
        beside = [each for each in path.glob("*.*") if each.suffix.lower() in _SUFFIXES]
        for each in sorted(beside) if path.is_dir() else [path]:
            source = read_source(each)
            is_suite = isinstance(source.value, dict) and source.value.keys() >= {"agent", "cases"}
            if beside and not is_suite and each.suffix.lower() != ".yaml":
                continue  # a baseline or a fixture beside the suites
            if each.stem in found:
                raise FixableError(f"two suites have the name {each.stem}", "rename one of them")
            found[each.stem] = source.parse_as(EvalSuite)
    if not found:
        where = ", ".join(map(str, paths))
        raise FixableError(f"there are no suites in {where}", "write one, or `holdfast evals add`")
    return found


def record_of(suite: str, case: EvalCase) -> RunRecord:
    """Return what answers the runs of a case."""
    questions, calls = list[QuestionRecord](), list[CallRecord]()
    for each in case.decisions:
        fields = each.model_dump(include={"decision", "result", "reason"}, exclude_none=True)
        fields |= {"result": each.result} if each.decision == "respond" else {}
        vote = Decision(call_id="t1c1", by="recorded", arguments=each.edit, **fields)
        kinds: tuple[Kind, ...] = ("call",) if each.decision == "edit" else ("call", "input")
        digests = [digest_of(each.tool, each.arguments, kind, 1) for kind in kinds]
        questions += [QuestionRecord(digest, [vote]) for digest in digests]
    for n, answer in enumerate(case.answers, start=1):
        calls.append(CallRecord(f"t{n}c1", answer.tool, answer.arguments, [_end(answer)]))
    hooks = [
        HookRecord(f"t{n}c1-{one.hook}", canonical_json([one.hook, *one.arguments]), _end(one))
        for n, one in enumerate(case.hooks, start=1)
    ]
    sent = [{"content": each} if isinstance(each, str) else each for each in case.messages]
    messages = [MessageRecord(0, Delivered.model_validate(each), was_awaited=True) for each in sent]
    name = f"{suite}/{case.name}"
    return RunRecord(name, case.request, None, (), calls, hooks, questions, messages)


def _end(written: CaseAnswer | CaseHook) -> End:
    if written.error is not None:
        return ApplicationError(written.error, type=ErrorCode.TOOL_ERROR, non_retryable=True)
    return RawValue(_PAYLOADS.to_payload(written.result))


def case_of(
    record: RunRecord, run: Outcome, name: str, expected: Collection[str], secrets: Secrets
) -> dict[str, Any]:
    """Return a case from a recorded run, which expects what that run did in these `RESPECTS`.

    Secrets are replaced in all of it.
    """
    calls = [{"tool": each.tool, "arguments": dict(each.arguments)} for each in run.calls]
    whole: dict[str, Any] = {
        "output": {"equals": run.output},
        "calls": {"exactly": calls},
        "approvals": list(run.approvals),
        "state": dict(run.state),
    }
    case = {
        "name": name,
        "request": {key: each for key, each in record.request.items() if key not in _OF_ITS_RUN},
        "messages": [each.message.to_json() for each in record.messages],
        "answers": [
            {"tool": each.tool, "arguments": each.arguments, **_ended(end)}
            for each in record.calls
            for end in each.ends
        ],
        "hooks": [
            {"hook": name, "arguments": arguments, **_ended(each.end)}
            for each in record.hooks
            for name, *arguments in [json.loads(each.key)]
            if call_of(each.id)
        ],
        "decisions": list(_decisions(record)),
        "expect": {key: each for key, each in whole.items() if key in expected},
    }
    found: dict[str, Any] = secrets.clean_value({key: one for key, one in case.items() if one})
    return found


def add_case(path: Path, agent: str, case: Mapping[str, Any]) -> None:
    """Add a case to a suite, which is written if it does not exist.

    Raises:
        LoadError: the file is no suite, or the case does not fit into it.
        FixableError: the suite is of another agent, or cannot be written.
    """
    whole, text = {"agent": agent, "cases": [case]}, None
    if path.exists():
        source = read_source(path)
        suite = source.parse_as(EvalSuite)
        if suite.agent != agent:
            raise FixableError(f"{path} is a suite of the agent {suite.agent}", "name another file")
        if case["name"] in [each.name for each in suite.cases]:
            wrong = f"{path} has a case {case['name']} already"
            raise FixableError(wrong, "name another with --name")
        whole = {**source.value, "cases": [*source.value["cases"], case]}
        text = _appended(read_text(path), source.line(("cases", 0)), whole)
    if path.suffix.lower() == ".json":
        text = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            draft = Path(folder) / path.name
            draft.write_text(text or write_yaml(whole), encoding="utf-8", errors="surrogatepass")
            if path.exists():
                shutil.copymode(path, draft)
            try:
                read_source(draft).parse_as(EvalSuite)
            except LoadError as error:
                raise LoadError(
                    [replace(each, file=str(path)) for each in error.problems]
                ) from None
            draft.replace(path)
    except OSError as error:
        wrong = f"{path} cannot be written: {error.strerror}"
        raise FixableError(wrong, "name another file") from None


def _appended(text: str, line: int, whole: Mapping[str, Any]) -> str | None:
    """Return a suite with its last case added below its text; None if that does not read so.

    The first case is at this line. All else of the text stays, also its comments.
    """
    dash = re.match(" *(?=- )", text.split("\n")[line - 1])
    if dash is None:
        return None
    text += "" if text.endswith("\n") else "\n"
    text += textwrap.indent(write_yaml([whole["cases"][-1]]), dash[0])
    try:
        return text if read_yaml(text)[0] == whole else None
    except UnreadableError:
        return None


def _decisions(record: RunRecord) -> Iterator[dict[str, Any]]:
    """Yield the decisions on calls that were not approved as they were."""
    for question in record.questions:
        call = question.asked
        if call is None or call.kind not in ("call", "input"):
            continue
        for vote in question.votes:
            if vote.decision in ("deny", "edit", "respond"):
                fields = {"edit": vote.arguments, "result": vote.result, "reason": vote.reason}
                yield {
                    "tool": call.tool,
                    "arguments": call.arguments,
                    "decision": vote.decision,
                    **{key: each for key, each in fields.items() if each is not None},
                }


def _ended(end: End) -> dict[str, Any]:
    if isinstance(end, RawValue):
        return {"result": _PAYLOADS.from_payload(end.payload)}
    return {"error": end.message if isinstance(end, FailureError) else str(end)}
