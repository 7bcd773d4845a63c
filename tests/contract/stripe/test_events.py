"""Events as a list: docs.stripe.com/api/events and docs.stripe.com/api/events/types. What a watch reads when no webhook came."""

from __future__ import annotations

from tests.contract.stripe.place import TAGS, Place, eventually, refusal


def test_what_happened_is_in_the_list_newest_first(place: Place) -> None:
    """A refund has its event, with the object as it was, soon after the answer; `type` narrows the list."""
    paid = place.paid()
    made = place.refund(paid, 100)

    def told() -> list[str]:
        listed = place.client.v1.events.list({"type": "refund.created", "limit": 20})
        return [one.data.object["id"] for one in listed.data]

    # Live, the list follows the answer after a moment.
    eventually(lambda: made.id in told(), within_s=30.0)
    (event,) = (
        one
        for one in place.client.v1.events.list({"type": "refund.created", "limit": 20}).data
        if one.data.object["id"] == made.id
    )
    assert event.id.startswith("evt_")
    assert (event.object, event.type, event.livemode) == ("event", "refund.created", False)
    assert event.data.object["metadata"]["suite"] == TAGS["suite"]
    assert event.created >= made.created
    assert place.client.v1.events.retrieve(event.id).id == event.id
    listed = place.client.v1.events.list({"limit": 50}).data
    assert [one.created for one in listed] == sorted((one.created for one in listed), reverse=True)


def test_an_event_names_the_request_that_caused_it(place: Place) -> None:
    """`request` carries the idempotency key, so that a foreign event can be told from one of our own."""
    paid, key = place.paid(), place.key("event")
    made = place.refund(paid, 100, key=key)

    def found() -> bool:
        listed = place.client.v1.events.list({"type": "refund.created", "limit": 20})
        return any(
            one.data.object["id"] == made.id and one.request is not None and one.request.idempotency_key == key
            for one in listed.data
        )

    eventually(found, within_s=30.0)


def test_an_event_that_is_not_there_is_resource_missing(place: Place) -> None:
    """404, as for every object."""
    error = refusal(lambda: place.client.v1.events.retrieve("evt_none"))
    assert (error.http_status, error.code) == (404, "resource_missing")
