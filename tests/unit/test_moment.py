"""The text of a moment on the record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol import rfc3339

ZONES = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45)), timezone(timedelta(hours=-8))])


@given(st.datetimes(min_value=datetime(1000, 1, 2), max_value=datetime(9999, 12, 30), timezones=ZONES))  # noqa: DTZ001
def test_it_is_the_moment_in_utc_to_the_microsecond(moment: datetime) -> None:
    """Whatever zone a clock tells it in, the text has microseconds and offset, sorts as moments do, and reads back as the same one."""
    text = rfc3339(moment)
    assert text == moment.astimezone(UTC).isoformat("T", "microseconds")
    assert datetime.fromisoformat(text) == moment
