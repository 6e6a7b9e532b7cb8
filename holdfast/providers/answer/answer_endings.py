"""Why an answer ended, in the words of all providers.

Each format lists the words of a whole answer; those of the other endings are the same everywhere,
since gateways pass them from format to format. A word in no list leaves it open whether the answer
is whole: see `answer_reader`.
"""

from collections.abc import Collection
from enum import Enum, auto

from holdfast.schemas.internal.solution import StopReason


class Ending(Enum):
    """How an answer ended."""

    WHOLE = auto()
    CUT_OFF = auto()
    FILTERED = auto()
    # The server failed in the middle: the answer is requested again.
    FAILED = auto()
    # The provider could not read what the model wrote: the model receives that it was empty.
    UNREADABLE = auto()
    # The provider does not accept the request, or what the model did: it receives that once.
    REFUSED = auto()
    UNKNOWN = auto()


NOTICES = {
    Ending.FILTERED: "the provider's filters ended the answer",
    Ending.FAILED: "the server failed within the answer",
    Ending.UNREADABLE: "the provider could not read what the model wrote",
    Ending.REFUSED: "the provider ended the answer without one",
    Ending.UNKNOWN: "the server ended the answer with an unknown reason",
}
STOP_REASONS: dict[Ending | None, StopReason] = {
    Ending.CUT_OFF: "length",
    Ending.FILTERED: "filtered",
}

_WORDS = {
    Ending.CUT_OFF: (
        *("length", "max_tokens", "max_output_tokens", "model_length"),
        *("model_context_window_exceeded", "pause_turn"),
    ),
    # Of Gemini; of Bedrock.
    Ending.UNREADABLE: (
        *("malformed_function_call", "unexpected_tool_call", "malformed_response"),
        *("malformed_tool_use", "malformed_model_output"),
    ),
}
_PARTS_OF_WORDS = {
    # Z.AI's filter is `sensitive`; the last ones are Gemini's.
    Ending.FILTERED: (
        *("filter", "refusal", "guardrail", "sensitive", "safety", "policy", "moderation"),
        *("recitation", "language", "blocklist", "prohibited", "spii", "escalation"),
        *("model_armor", "pup_limited_disabled"),
    ),
    # OpenRouter: `error`; vLLM, MiniMax: `abort`; DeepSeek: `insufficient_system_resource`; Z.AI:
    # `network_error`; and the likely words of others.
    Ending.FAILED: (
        *("error", "abort", "cancel", "timeout", "timed_out", "insufficient", "fail", "interrupt"),
        *("unavailable", "overload", "disconnect", "exception"),
    ),
}


def ending_of(reason: str, whole: Collection[str], refused: Collection[str] = ()) -> Ending:
    """Return the ending for a reason; the format's words are `whole`, and `refused` ones."""
    word = reason.lower()
    for ending, words in {Ending.WHOLE: whole, **_WORDS, Ending.REFUSED: refused}.items():
        if word in words:
            return ending
    for ending, parts in _PARTS_OF_WORDS.items():
        if any(part in word for part in parts):
            return ending
    return Ending.UNKNOWN
