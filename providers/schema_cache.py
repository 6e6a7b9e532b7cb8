"""A cache of what providers make of schemas.

Converting a schema takes far longer than recognising it: agents have dozens of tools, and send the
same ones in every turn.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from holdfast.providers.content import encode_json

MAX_CACHED_BYTES = 16 * 1024 * 1024
# The size of a result for each byte of its JSON: objects are larger than texts.
_BYTES_PER_JSON_BYTE = 8
_RESULT_BYTES = 512

ArgumentsT = ParamSpec("ArgumentsT")
ResultT = TypeVar("ResultT")


def cached_by_value(make: Callable[ArgumentsT, ResultT]) -> Callable[ArgumentsT, ResultT]:
    """Return a function of JSON values that caches the results of the last ones used.

    Results are shared and must not be changed. Such functions are called only in the event loop.
    """
    cache: OrderedDict[bytes, tuple[ResultT, int]] = OrderedDict()
    size_bytes = 0

    @wraps(make)
    def cached(*args: ArgumentsT.args, **kwargs: ArgumentsT.kwargs) -> ResultT:
        nonlocal size_bytes
        try:
            text = encode_json([args, kwargs])
        except RecursionError:  # nested too deep to be written
            return make(*args, **kwargs)
        key = hashlib.sha256(text).digest()
        if key in cache:
            cache.move_to_end(key)
            return cache[key][0]
        result = make(*args, **kwargs)
        cost_bytes = _RESULT_BYTES + _BYTES_PER_JSON_BYTE * len(text)
        cache[key] = (result, cost_bytes)
        size_bytes += cost_bytes
        while size_bytes > MAX_CACHED_BYTES:
            _, (_, freed_bytes) = cache.popitem(last=False)
            size_bytes -= freed_bytes
        return result

    return cached
