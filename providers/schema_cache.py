"""Not working the same thing out again for every request.

What a provider makes of a schema takes far longer than to see that it is the same schema: agents
have some dozens of tools, and say the same ones in every turn.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from holdfast.providers.content import encode_json

MAX_CACHED_BYTES = 16 * 1024 * 1024
# What a result takes, for each byte of the JSON that it is made of: objects are larger than texts.
_TIMES = 8
_RESULT_BYTES = 512

Given = ParamSpec("Given")
Made = TypeVar("Made")


def cached_by_value(make: Callable[Given, Made]) -> Callable[Given, Made]:
    """The same function of JSON values, which remembers what it made of the newest of them.

    Nobody may change a result: the next one is given the same. Such functions are called in the
    event loop alone.
    """
    made: OrderedDict[bytes, tuple[Made, int]] = OrderedDict()
    size_bytes = 0

    @wraps(make)
    def remember(*args: Given.args, **kwargs: Given.kwargs) -> Made:
        nonlocal size_bytes
        try:
            text = encode_json([args, kwargs])
        except RecursionError:  # nested too deep to be written
            return make(*args, **kwargs)
        key = hashlib.sha256(text).digest()
        if key in made:
            made.move_to_end(key)
            return made[key][0]
        result, room = make(*args, **kwargs), _RESULT_BYTES + _TIMES * len(text)
        made[key] = (result, room)
        size_bytes += room
        while size_bytes > MAX_CACHED_BYTES:
            _, (_, freed) = made.popitem(last=False)
            size_bytes -= freed
        return result

    return remember
