"""The end of a run in a few words: what came of it, what it left, what it used."""

from collections.abc import Iterator

from holdfast.client.result import RunEnding
from holdfast.runtime.text_safety import as_json, as_text, clean, message_after_code
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.run import RunResult, Spent


def ending_lines(ending: RunEnding) -> Iterator[tuple[str, str]]:
    """Name and text of what is to be said at the end: output, state, status; or the error."""
    if ending.result is not None:
        if ending.told or ending.result.output is not None:
            yield "output", as_text(ending.told or ending.result.output)
        if ending.result.state:
            yield "state", as_text(ending.result.state)
        for name, state in ending.result.instances.items():
            if state:
                yield f"state of {clean(name)}", as_json(state)
    yield ending.status, detail(ending)


def detail(ending: RunEnding) -> str:
    """What belongs to the status: what the run used, or why it failed."""
    if ending.result is not None:
        return used(ending.result)
    if ending.code in (None, ending.status):
        return clean(ending.message).strip()
    return f"{ending.code}: {message_after_code(str(ending.code), ending.message)}"


def used(result: RunResult | Spent) -> str:
    """`3 turns, 4 calls, 1,234 tokens in, 220 out`; where no model was asked, `1 call`."""
    asked = [_count(result.turns, "turn")] if result.turns else []
    spent = tokens(result.usage) if result.turns else ()
    return ", ".join([*asked, _count(result.calls, "call"), *spent])


def tokens(usage: Usage) -> Iterator[str]:
    """Tokens and cost, as far as they are known."""
    if usage.input_tokens is None or usage.output_tokens is None:
        yield "tokens unknown"
    else:
        cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
        yield f"{usage.input_tokens:,} tokens in{cached}"
        yield f"{usage.output_tokens:,} out"
    if usage.cost is not None:
        yield f"cost {usage.cost:.4f}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
