"""An async effect at a service that neither dedupes nor can be asked (tier 3): plain SMTP is like that.

The answer to a mail is lost. Nobody can know whether it went out, so the gate says AMBIGUOUS and never sends a second one; a mail
that certainly did not leave is said to be so, and may be tried again.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile

from interlock import Interlock, NotSent

logging.disable(logging.WARNING)
outbox: list[str] = []
network = {"state": "down"}


async def main() -> None:
    """Play it."""
    with tempfile.TemporaryDirectory() as directory, Interlock(directory) as gate:

        @gate.effect(key=lambda customer, text: f"apology:{customer}", binds=["customer"])
        async def send_apology(customer: str, text: str) -> str:
            if network["state"] == "down":
                raise NotSent("no connection to the mail server", reason="offline")
            outbox.append(customer)
            if network["state"] == "loses answers":
                raise TimeoutError("no answer after DATA")
            return "queued"

        await gate.arecover()
        print("server down:    ", await send_apology("ada", "We are sorry."))
        network["state"] = "up"
        print("server is back: ", await send_apology("ada", "So sorry."))
        print("asked again:    ", await send_apology("ada", "Sorry, once more."))
        network["state"] = "loses answers"
        outcome = await send_apology("bob", "We are sorry.")
        print("answer is lost: ", outcome)
        print("asked again:    ", await send_apology("bob", "We are sorry."))
        print(outcome.for_model)
        print("mails that left:", outbox)


if __name__ == "__main__":
    asyncio.run(main())
