"""What parsers are fuzzed with."""

from typing import Any

from hypothesis import strategies as st

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([10**400, -(10**4_000), 1e308, 2**63, "\x00", "\u202e", "\x1b[2J"])
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@st.composite
def spoilt(draw: st.DrawFn, whole: bytes) -> bytes:
    """Bytes that were good, with a few of them cut out, doubled, put in or replaced."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(0, 4))):
        begin = draw(st.integers(0, len(data)))
        end = min(begin + draw(st.integers(0, 40)), len(data))
        with_ = draw(
            st.binary(max_size=8)
            | st.just(bytes(data[begin:end]) * 2)
            | st.sampled_from(
                [b"null", b"[]", b"{}", b"-1", b"1e999", b'"\\ud800"', b"\n", b"\n\n"]
            )
            | st.sampled_from(
                [b"[" * 2_000, b"9" * 5_000, b'{"error":', b"data: ", b"\xff", b"true"]
            )
        )
        data[begin:end] = with_
    return bytes(data)


@st.composite
def pieces(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The bytes as a network may bring them."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [-1, 10**30, 1e300, "", "\ud83d", [], {}, None, [[]], {"error": None}]
)


@st.composite
def changed(draw: st.DrawFn, value: Any) -> Any:
    """A value of JSON, with something else somewhere in it, or without something."""
    if not isinstance(value, dict | list) or not value or draw(st.integers(0, 5)) == 0:
        return draw(ODD | json_values)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = draw(st.sampled_from(keys))
    copy: Any = value.copy()
    if draw(st.integers(0, 9)) == 0:
        del copy[key]
    else:
        copy[key] = draw(changed(value[key]))
    return copy
