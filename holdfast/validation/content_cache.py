"""Results that are a function of JSON values alone, kept for all runs and requests of a process.

A worker checks, translates and declares the same tools in every run and every request. A key is the
SHA-256 of the function's name and of the exact JSON of its arguments, which hold every setting that
it reads. Results are shared, also between threads, and must not be changed. What a run itself
checks is never kept here: its work counts in the budget of the run, each time.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Any, Final, ParamSpec, TypeVar, cast

from pydantic_core import PydanticSerializationError, to_json

ArgumentsT = ParamSpec("ArgumentsT")
ResultT = TypeVar("ResultT")

MAX_RESULTS: Final = 10_000
# Of the arguments as JSON; a result is about as large.
MAX_ARGUMENTS_BYTES: Final = 64_000_000


def content_of(*values: Any) -> bytes:
    """Return JSON values as bytes that differ wherever the values do."""
    try:
        return to_json(values)
    except PydanticSerializationError:  # half a character is JSON, and no UTF-8
        return json.dumps(values).encode()


class ContentCache:
    """The results used last, at most `max_results` of at most `max_bytes` of arguments."""

    def __init__(
        self, max_results: int = MAX_RESULTS, max_bytes: int = MAX_ARGUMENTS_BYTES
    ) -> None:
        self._max_results, self._max_bytes = max_results, max_bytes
        self._results: OrderedDict[bytes, tuple[int, Any]] = OrderedDict()
        self._size_bytes = 0
        self._lock = Lock()

    def get(self, arguments: bytes, make: Callable[[], ResultT]) -> ResultT:
        """Return the result for these arguments, made unless it is kept."""
        key = hashlib.sha256(arguments).digest()
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return cast(ResultT, self._results[key][1])
        result = make()
        with self._lock:
            if key not in self._results:
                self._results[key] = len(arguments), result
                self._size_bytes += len(arguments)
            while len(self._results) > self._max_results or self._size_bytes > self._max_bytes:
                _, (size_bytes, _) = self._results.popitem(last=False)
                self._size_bytes -= size_bytes
        return result


_results = ContentCache()


def cached_by_content(
    make: Callable[ArgumentsT, ResultT], cache: ContentCache = _results
) -> Callable[ArgumentsT, ResultT]:
    """Return a function of JSON values that keeps its results; it is given values of its own."""
    name = f"{make.__module__}.{make.__qualname__}"

    @wraps(make)
    def of_values(*args: ArgumentsT.args, **kwargs: ArgumentsT.kwargs) -> ResultT:
        arguments = content_of(name, args, kwargs)

        def made() -> ResultT:
            _, own_args, own_kwargs = json.loads(arguments)
            return make(*own_args, **own_kwargs)

        return cache.get(arguments, made)

    return of_values
