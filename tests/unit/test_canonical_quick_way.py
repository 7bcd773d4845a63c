"""The quick way to canonical bytes gives what the standard's own library gives, or steps aside."""

from __future__ import annotations

import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import NotSerializable
from interlock.rules.canonical import canonical_bytes

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_quick_or_not_the_bytes_are_those_of_rfc8785(value: object) -> None:
    """Any JSON value has the very bytes that rfc8785 gives it, and is refused where rfc8785 refuses."""
    try:
        expected: bytes | None = rfc8785.dumps(value)  # type: ignore[arg-type]
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        expected = None
    try:
        assert canonical_bytes(value) == expected
    except NotSerializable:
        assert expected is None
