"""`python -m benchmarks.services.stripe --dir DIR`: serve until interrupted."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.services.stripe.ledger import LedgerInUse
from benchmarks.services.stripe.server import serve


def main() -> int:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.services.stripe",
        description="A local Stripe-compatible service on 127.0.0.1: money, events, webhooks, idempotency keys, faults; see README.md.",
    )
    parser.add_argument("--dir", type=Path, required=True, help="where the books are kept; start again on it to go on")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one (default)")
    parser.add_argument(
        "--with-parent", action="store_true", help="end when standard input closes (the launcher uses it)"
    )
    asked = parser.parse_args()
    try:
        serve(asked.dir, port=asked.port, with_parent=asked.with_parent)
    except (LedgerInUse, OSError) as error:
        print(f"the local Stripe service cannot start: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
