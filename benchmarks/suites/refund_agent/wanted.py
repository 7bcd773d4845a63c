"""What every cell must be: the specification, typed in from the case page, and the one place where it is typed.

Everything else in this suite is measured. `$20 ok` is: 2000 minor units at the service, verdict held. `X` is violated, `!`
is held but nobody can tell. The handed table covers eleven rows and six columns; the further rows say what is wanted of the
gate alone. Nothing is wanted of the hand check: its columns show what it does.
"""

from __future__ import annotations

from benchmarks.harness.document import Verdict, Wanted
from benchmarks.suites.refund_agent.arms import DURABLE, GATE, IDEMPOTENCY, NAIVE, Column

HANDED_COLUMNS = (NAIVE, IDEMPOTENCY, DURABLE, *GATE)

HANDED = """
happy_path                  | APPLIED $20 ok | APPLIED:ok $20 ok | COMPLETED:ok $20 ok | COMMITTED $20 ok | COMMITTED $20 ok | COMMITTED $20 ok
crash_before_send           | RETRIED $20 ok | RETRIED $20 ok | RERUN:ok $20 ok | COMMITTED_BY_RETRY $20 ok | REAPPLIED_AFTER_QUERY $20 ok | AMBIGUOUS $0 !
crash_before_ack            | RETRIED $40 X | RETRIED $20 ok | RERUN:already_processed $20 ok | COMMITTED_BY_RETRY $20 ok | COMMITTED_ON_QUERY $20 ok | AMBIGUOUS $20 !
duplicate_submit            | APPLIED $40 X | APPLIED:already_processed $20 ok | REPLAYED:ok $20 ok | DUPLICATE_IGNORED $20 ok | DUPLICATE_IGNORED $20 ok | DUPLICATE_IGNORED $20 ok
model_redecides             | APPLIED $50 X | APPLIED:key_reused_with_different_params $20 ok | REPLAYED:RERUN:already_processed $20 ok | REFUSED:conflicting_payload $20 ok | REFUSED:conflicting_payload $20 ok | REFUSED:conflicting_payload $20 ok
conflicting_payload         | APPLIED $50 X | APPLIED:key_reused_with_different_params $20 ok | REPLAYED:ok $20 ok | REFUSED:conflicting_payload $20 ok | REFUSED:conflicting_payload $20 ok | REFUSED:conflicting_payload $20 ok
lease_revoked               | APPLIED $20 X | APPLIED:ok $20 X | COMPLETED:ok $20 X | REFUSED:lease $0 ok | REFUSED:lease $0 ok | REFUSED:lease $0 ok
stale_eligibility           | APPLIED $20 X | APPLIED:ok $20 X | COMPLETED:ok $20 X | REFUSED:stale_premise $0 ok | REFUSED:stale_premise $0 ok | REFUSED:stale_premise $0 ok
refund_during_outage        | RETRIED $40 X | RETRIED $40 X | RERUN:ok $40 X | REFUSED:stale_premise_at_recovery $20 ok | REFUSED:stale_premise_at_recovery $20 ok | AMBIGUOUS $20 !
lease_revoked_during_outage | RETRIED $20 X | RETRIED $20 X | RERUN:ok $20 X | REFUSED:lease_at_recovery $0 ok | REFUSED:lease_at_recovery $0 ok | AMBIGUOUS $0 !
key_expired                 | RETRIED $40 X | RETRIED $40 X | RERUN:ok $40 X | COMMITTED_ON_QUERY $20 ok | COMMITTED_ON_QUERY $20 ok | AMBIGUOUS $20 !
"""  # noqa: E501

FURTHER_COLUMNS = GATE

# `*` asks for no particular status: the row's page wants the money and the verdict.
FURTHER = """
late_landing                          | COMMITTED_BY_RETRY $20 ok | COMMITTED_ON_QUERY $20 ok | AMBIGUOUS $20 !
late_landing_stale                    | COMMITTED_ON_QUERY $20 ok | COMMITTED_ON_QUERY $20 ok | AMBIGUOUS $20 !
paused_sender                         | IN_FLIGHT:sender_alive+COMMITTED $20 ok | IN_FLIGHT:sender_alive+COMMITTED $20 ok | IN_FLIGHT:sender_alive+COMMITTED $20 ok
concurrent_delivery                   | COMMITTED+DUPLICATE_IGNORED $20 ok | COMMITTED+DUPLICATE_IGNORED $20 ok | COMMITTED+DUPLICATE_IGNORED $20 ok
unrelated_refund_during_outage        | COMMITTED_BY_RETRY $25 ok | REAPPLIED_AFTER_QUERY $25 ok | AMBIGUOUS $5 !
unrelated_refund_during_outage_strict | REFUSED:stale_premise_at_recovery $5 ok | REFUSED:stale_premise_at_recovery $5 ok | AMBIGUOUS $5 !
refund_during_outage_tolerant         | REFUSED:stale_premise_at_recovery $20 ok | REFUSED:stale_premise_at_recovery $20 ok | AMBIGUOUS $20 !
refund_500_after_acting               | COMMITTED_ON_QUERY $20 ok | COMMITTED_ON_QUERY $20 ok | AMBIGUOUS $20 !
declined_then_approved                | COMMITTED $20 ok | COMMITTED $20 ok | COMMITTED $20 ok
premise_false_at_decision             | REFUSED:premise_false $0 ok | REFUSED:premise_false $0 ok | REFUSED:premise_false $0 ok
clock_back_25h                        | * $20 ok | COMMITTED_ON_QUERY $20 ok | AMBIGUOUS $20 !
clock_back_25h_after_25h              | COMMITTED_ON_QUERY $20 ok | COMMITTED_ON_QUERY $20 ok | AMBIGUOUS $20 !
"""  # noqa: E501

_VERDICTS = {"ok": Verdict.HELD, "X": Verdict.VIOLATED, "!": Verdict.UNKNOWN}


def _read(text: str, columns: tuple[Column, ...]) -> dict[tuple[str, Column], Wanted]:
    wanted: dict[tuple[str, Column], Wanted] = {}
    for line in text.strip().splitlines():
        row, *cells = (part.strip() for part in line.split("|"))
        for column, cell in zip(columns, cells, strict=True):
            outcome, money, verdict = cell.split()
            wanted[row, column] = Wanted(
                outcome=None if outcome == "*" else outcome,
                money_minor=int(money.removeprefix("$")) * 100,
                verdict=_VERDICTS[verdict],
            )
    return wanted


WANTED = {**_read(HANDED, HANDED_COLUMNS), **_read(FURTHER, FURTHER_COLUMNS)}
"""By row and column; a pair that is not here has nothing wanted of it."""

HANDED_ROWS = tuple(line.split("|")[0].strip() for line in HANDED.strip().splitlines())
FURTHER_ROWS = tuple(line.split("|")[0].strip() for line in FURTHER.strip().splitlines())
