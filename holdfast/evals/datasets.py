"""Suites as datasets of pydantic-evals, and the evaluators that their cases name.

Only the extra `evals` installs it. An evaluator is code, which runs in this process: it is imported
only where that is allowed.
"""

from pathlib import Path
from typing import Any

from pydantic_evals import Case, Dataset, increment_eval_metric, set_eval_attribute
from pydantic_evals.evaluators import Evaluator

from holdfast.catalog.python_module import load_object
from holdfast.evals.checks import Outcome
from holdfast.runtime.settings_files.source import read_source
from holdfast.runtime.text_safety import one_line
from holdfast.schemas.settings.evals import EvalCase, EvalSuite
from holdfast.validation.problems import FixableError

_REASON_CHARS = 300


def dataset(path: Path | str, *, allow_code: bool = False) -> Dataset[Any, Any, Any]:
    """Return the suite in a file as a dataset, with its evaluators if their code may run here.

    The inputs of a case are the fields of its request; its metadata is all else of it.

    Raises:
        LoadError: the file is no suite, or an evaluator does not load.
        FixableError: it names evaluators, and `allow_code` is not set.
    """
    path = Path(path)
    suite = read_source(path).parse_as(EvalSuite)
    cases = [dataset_case(path.stem, each, allow_code=allow_code) for each in suite.cases]
    return Dataset[Any, Any, Any](name=path.stem, cases=cases)


def dataset_case(suite: str, case: EvalCase, *, allow_code: bool) -> Case[Any, Any, Any]:
    """Return one case of a dataset; raises as `dataset` does."""
    named = case.expect.evaluators
    if named and not allow_code:
        wrong = f"{suite}/{case.name} names the evaluator {named[0].evaluator}, which is code"
        raise FixableError(wrong, "read it, and allow it with --allow-code")
    written = case.to_json()
    return Case(
        name=case.name,
        inputs=case.request,
        metadata={key: each for key, each in written.items() if key not in ("name", "request")},
        expected_output=case.expect.output.equals,
        evaluators=[load_object(each.evaluator, Evaluator, **each.arguments) for each in named],
    )


async def evaluator_failures(case: Case[Any, Any, Any], run: Outcome) -> list[str]:
    """Return why a run does not pass the evaluators of its case, a line each."""

    def task(_: Any) -> Any:
        for name in ("status", "calls", "state", "approvals"):
            set_eval_attribute(name, getattr(run, name))
        for metric, used in (("turns", run.turns), ("cost", run.cost)):
            if used is not None:
                increment_eval_metric(metric, used)
        return run.output

    dataset = Dataset[Any, Any, Any](name="run", cases=[case])
    [done] = (await dataset.evaluate(task, progress=False)).cases
    asserted = [each.source for each in done.assertions.values()]
    why = [
        f"{each.name}: {each.reason or 'false'}"
        for each in done.assertions.values()
        if not each.value
    ]
    why += [f"{each.name}: {each.error_message}" for each in done.evaluator_failures]
    # A score alone would pass with any value.
    why += [
        f"{each.name}: {each.value!r} is neither true nor false"
        for each in (*done.scores.values(), *done.labels.values())
        if each.source not in asserted
    ]
    return [one_line(line, _REASON_CHARS) for line in why]
