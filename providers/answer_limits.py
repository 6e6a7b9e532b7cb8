"""How large a solution may be: it is recorded in a run's history, where 2 MB is the end of all.

Sizes are those of JSON as Temporal's default converter writes it, in ASCII.
"""

import json
from typing import Any

from holdfast.schemas.internal.solution import Solution, WrittenCall

MAX_SOLUTION_BYTES = 1024 * 1024
MAX_FITTED_TEXT_BYTES = 512 * 1024
MAX_PROVIDER_DATA_BYTES = 256 * 1024


def size_bytes(value: Any) -> int:
    """How many bytes the value takes in history."""
    return len(json.dumps(value, separators=(",", ":")))


def fit_solution(solution: Solution) -> Solution:
    """The solution within its bound: first the provider's own data is left out where it is larger
    than its own, then the text is cut, then the largest arguments are left out, then the last
    calls. What was left out is said."""
    solution = _without_large_data(solution)
    if size_bytes(solution.to_json()) <= MAX_SOLUTION_BYTES:
        return solution
    solution = _with_less_text(solution)
    solution = _with_less_arguments(solution)
    return _with_fewer_calls(solution)


def _without_large_data(solution: Solution) -> Solution:
    """Whole or not at all: a part of it is of no use to the provider."""
    size = size_bytes(solution.provider_data)
    if size <= MAX_PROVIDER_DATA_BYTES:
        return solution
    notice = f"the provider's own data, such as the model's thoughts, was left out: {size} bytes"
    changes = {"provider_data": None, "notices": [*solution.notices, notice]}
    return solution.model_copy(update=changes)


def _with_less_text(solution: Solution) -> Solution:
    text = solution.text
    while (size := size_bytes(text)) > MAX_FITTED_TEXT_BYTES:
        text = text[: min(len(text) * MAX_FITTED_TEXT_BYTES // size, len(text) * 9 // 10)]
    if text == solution.text:
        return solution
    notice = f"the text was cut from {len(solution.text)} to {len(text)} characters"
    changes = {"text": text, "stop_reason": "length", "notices": [*solution.notices, notice]}
    return solution.model_copy(update=changes)


def _with_less_arguments(solution: Solution) -> Solution:
    calls = list(solution.calls)
    excess_bytes = size_bytes(solution.to_json()) - MAX_SOLUTION_BYTES
    savings = [(size_bytes(call.arguments), index) for index, call in enumerate(calls)]
    for _, index in sorted(savings, reverse=True):
        blank = _blank(calls[index])
        saved = size_bytes(calls[index].to_json()) - size_bytes(blank.to_json())
        if excess_bytes <= 0 or saved <= 0:
            break
        calls[index] = blank
        excess_bytes -= saved
    return solution.model_copy(update={"calls": calls})


def _blank(call: WrittenCall) -> WrittenCall:
    if call.oversize_bytes is not None:
        return call
    written = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    size = len(written.encode())
    return call.model_copy(update={"arguments": "", "oversize_bytes": size})


def _with_fewer_calls(solution: Solution) -> Solution:
    excess_bytes = size_bytes(solution.to_json()) - MAX_SOLUTION_BYTES
    if excess_bytes <= 0:
        return solution
    calls = list(solution.calls)
    notice = f"of {len(calls)} calls only the first … were kept: the answer was too large"
    # Besides the notice: its digits, and the list of notices where there was none.
    excess_bytes += size_bytes(notice) + 40
    while calls and excess_bytes > 0:
        excess_bytes -= size_bytes(calls.pop().to_json()) + 1
    notices = [*solution.notices, notice.replace("…", str(len(calls)))]
    return solution.model_copy(update={"calls": calls, "notices": notices})
