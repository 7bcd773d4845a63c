"""`python -m benchmarks audit RESULTS.json`: re-read the service for every recorded cell, and say where it disagrees.

For each cell: the money, the counts and the objects as the service shows them now; whether the recorded answer is true of that; whether
the verdict and "as wanted" follow; and its receipt, verified from the JSON alone and compared with the outcome. Exit code 0 only
if every cell was audited and nothing disagrees. `--offline` asks no service: it checks what follows from the file alone.

    local   the service is started again on the ledger that the run kept (named in meta, or given by --service-dir)
    live    Stripe's test mode, with the key that the run had (STRIPE_API_KEY=sk_test_...)
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import stripe

from benchmarks.harness.document import Verdict, load
from benchmarks.harness.stripe_place import ROOT, StripePlace
from benchmarks.harness.stripe_wire import Service
from benchmarks.harness.suite import CannotRun
from benchmarks.harness.truth import READERS, reader_of
from benchmarks.report import column_of
from benchmarks.suites.refund_agent.answer import Claim, claim_of, is_true
from benchmarks.suites.scenarios import SCENARIOS
from interlock import Receipt

LEDGER_FILE = "ledger.sqlite3"
CANNOT_RUN = 2
Json = Mapping[str, Any]
Judge = Callable[[Json], Verdict]

LANDED_KINDS = frozenset({"COMMITTED", "SETTLED", "AT_RISK", "REVERSED"})


def main(arguments: Sequence[str]) -> int:
    """Audit one result file; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks audit", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path, help="a result of a benchmark that talks to Stripe")
    parser.add_argument("--service-dir", type=Path, help="where the local run's ledger lies, if not where meta says")
    parser.add_argument(
        "--offline", action="store_true", help="ask no service: verdicts, as wanted and receipts, from the file alone"
    )
    options = parser.parse_args(arguments)
    try:
        document = read(options.results)
        load_readers(document)
        if options.offline:
            return tell_offline(options.results.name, document)
        with open_recorded(document["meta"], options.service_dir) as place:
            findings, audited, skipped = audit(document, place)
    except CannotRun as error:
        print(f"audit: {error}", file=sys.stderr)
        return CANNOT_RUN
    for finding in findings:
        print(f"DISAGREES  {finding}")
    total = len(document["cells"])
    for reason, number in skipped.items():
        print(f"not audited: {number} cells, {reason}")
    verdict = "the service agrees with every one" if not findings else f"{len(findings)} disagreements"
    print(f"{options.results.name}: {audited} of {total} cells re-read from the {place.service} service; {verdict}.")
    return 0 if not findings and audited == total and total else 1


def read(file: Path) -> dict[str, Any]:
    """A result file.

    Raises:
        CannotRun: there is none, or it is something else.
    """
    try:
        document = load(file)
        if not isinstance(document["cells"], list) or not isinstance(document["meta"], dict):
            raise ValueError("no cells")
    except OSError as error:
        raise CannotRun(f"{file} cannot be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CannotRun(f"{file} is not a result of `python -m benchmarks` (the .json file, not the page)") from error
    return document


def tell_offline(name: str, document: Json) -> int:
    """Check each cell against itself, and say what disagrees; returns the exit code."""
    judge = judge_of(document)
    findings = [
        f"cell {number} ({cell['row']}, {column_of(cell)}, {cell['crash']}): {what}"
        for number, cell in enumerate(document["cells"])
        for what in _check_itself(cell, None, judge)
    ]
    for finding in findings:
        print(f"DISAGREES  {finding}")
    verdict = "nothing disagrees" if not findings else f"{len(findings)} disagreements"
    print(f"{name}: {len(document['cells'])} cells checked against themselves, no service was asked; {verdict}.")
    return 0 if not findings and document["cells"] else 1


def judge_of(document: Json) -> Judge | None:
    """How a cell's verdict follows from its money, count and answers by the row; None where a suite's rows do not say that."""
    name = str(document.get("name", ""))
    if name == "matrix":
        from benchmarks.suites.matrix import rows, suite

        return lambda cell: suite.judge(
            rows.BY_NAME[cell["row"]],
            cell["money_minor"],
            cell["refunds"],
            str(cell["outcome"]).split("+"),
            bool(cell["answer_true"]),
        )
    if name.startswith("e2e_"):
        from benchmarks.suites.e2e import rows as crashes
        from benchmarks.suites.e2e import suite as e2e

        by_name = {row.name: row for row in crashes.ROWS}
        return lambda cell: (
            e2e.judge(
                by_name[cell["row"]], cell["money_minor"], cell["refunds"], cell["outcome"], bool(cell["answer_true"])
            )
            if cell["is_played"]
            else Verdict.UNKNOWN
        )
    return None


def load_readers(document: Json) -> None:
    """Make the readers of the scenarios known that this result's cells name."""
    for name in {str(reader_of(cell)) for cell in document["cells"]} & set(SCENARIOS):
        importlib.import_module(f"benchmarks.suites.scenarios.{name}")


def open_recorded(meta: Json, directory: Path | None) -> StripePlace:
    """The service that a result was measured against.

    Raises:
        CannotRun: A local run's ledger is not there.
    """
    run = str(meta.get("run", ""))
    if meta.get("service") == Service.LIVE:
        return StripePlace(Service.LIVE, run=run)
    kept = directory if directory is not None else ROOT / str(meta["ledger"]) if meta.get("ledger") else None
    if kept is None:
        raise CannotRun("the result does not say where its local ledger lies; give it by --service-dir")
    if not (kept / LEDGER_FILE).is_file():
        raise CannotRun(
            f"there is no ledger in {directory or meta['ledger']}; a local run can be audited where its ledger was kept. "
            "What follows from the file alone is checked by --offline"
        )
    return StripePlace(Service.LOCAL, directory=kept, run=run)


def audit(document: Json, place: StripePlace) -> tuple[list[str], int, dict[str, int]]:
    """What disagrees, how many cells were audited, and why the others were not."""
    findings: list[str] = []
    skipped: dict[str, int] = {}
    audited = 0
    judge = judge_of(document)
    for number, cell in enumerate(document["cells"]):
        reader = reader_of(cell)
        if reader is None or reader not in READERS:
            reason = "which carry no ids" if reader is None else f"whose reader {reader!r} is not known"
            skipped[reason] = skipped.get(reason, 0) + 1
            continue
        audited += 1
        where = f"cell {number} ({cell['row']}, {column_of(cell)}, {cell['crash']})"
        try:
            findings.extend([f"{where}: {what}" for what in check(cell, place, reader, judge)])
        except stripe.InvalidRequestError as error:
            findings.append(f"{where}: the service does not know what it names: {error.user_message or error}")
        except KeyError as error:
            findings.append(f"{where}: it lacks {error}, without which it cannot be checked")
    return findings, audited, skipped


def check(cell: Json, place: StripePlace, reader: str, judge: Judge | None = None) -> Iterator[str]:
    """What of one cell disagrees with the service or with itself."""
    told = READERS[reader](place, cell)
    for name, now in told.items():
        if name in cell and cell[name] is not None and cell[name] != now:
            yield f"{name} is recorded as {cell[name]!r}; the service says {now!r}"
    own = _own(cell, told, place, reader) if reader == "refunds" or "ids" in told else None
    if own is not None:
        yield from _check_answer(cell, own)
    yield from _check_itself(cell, own, judge)


def _check_itself(cell: Json, own: Mapping[str, int] | None, judge: Judge | None) -> Iterator[str]:
    """What of it needs no service."""
    if judge is not None and (verdict := str(judge(cell))) != cell["verdict"]:
        yield f"the verdict is recorded as {cell['verdict']}; by money, count and answers it is {verdict}"
    yield from _check_wanted(cell)
    yield from _check_receipt(cell, own)


def _own(cell: Json, told: Json, place: StripePlace, reader: str) -> dict[str, int]:
    """What the agent itself made, by id, with its amount: all but what people made by hand."""
    by_hand = set(cell.get("by_hand") or ())
    if reader != "refunds":
        return {one: int(cell["asked_minor"]) for one in told["ids"] if one not in by_hand}
    return {
        str(refund["id"]): int(refund["amount"])
        for refund in place.refunds(str(cell["payment"]))
        if refund["id"] not in by_hand and (refund.get("metadata") or {}).get("by") != "support"
    }


def _check_answer(cell: Json, own: Mapping[str, int]) -> Iterator[str]:
    landed = list(own.values())
    asked = int(cell.get("asked_minor") or 2000)
    try:
        true = all(is_true(one, asked_minor=asked, landed_minor=landed) for one in str(cell["outcome"]).split("+"))
        claims = [claim_of(one) for one in str(cell["outcome"]).split("+")]
    except KeyError as error:
        yield f"the outcome {cell['outcome']!r} is none that can be judged: {error}"
        return
    if cell.get("refund") and cell["refund"] not in own:
        true = False
        yield f"the answer names {cell['refund']}, which the agent did not make or the service does not have"
    if cell.get("answer_true") is not None and cell["answer_true"] != true:
        yield f"answer_true is recorded as {cell['answer_true']}; by the service it is {true} ({cell['outcome']}, the agent made {landed})"
    if cell["verdict"] == "held" and claims[-1] is Claim.UNKNOWN:
        yield f"the verdict is held, but {cell['outcome']} says that nobody knows"


def _check_wanted(cell: Json) -> Iterator[str]:
    asked = [(cell.get(f"wanted_{name}"), cell[field]) for name, field in _WANTED.items()]
    if all(want is None for want, _ in asked):
        return
    as_wanted = all(want is None or want == got for want, got in asked)
    if cell["as_wanted"] != as_wanted:
        yield f"as_wanted is recorded as {cell['as_wanted']}; by its own fields it is {as_wanted}"


_WANTED = {"outcome": "outcome", "minor": "money_minor", "verdict": "verdict"}


def _check_receipt(cell: Json, own: Mapping[str, int] | None) -> Iterator[str]:
    if not cell.get("receipt"):
        return
    try:
        receipt = Receipt.from_dict(cell["receipt"])
    except ValueError as error:
        yield f"the receipt cannot be read: {error}"
        return
    verified = receipt.verify()
    if not verified.ok:
        yield f"the receipt does not verify: {'; '.join(verified.problems)}"
        return
    if receipt.effect_id != cell.get("effect_id"):
        yield f"the receipt is of {receipt.effect_id}, the cell of {cell.get('effect_id')}"
    kinds = {str(entry.get("kind")) for entry in receipt.entries}
    landed = bool(kinds & LANDED_KINDS)
    claims_landed = claim_of(str(cell["outcome"]).split("+")[-1]) is Claim.LANDED
    if landed != claims_landed:
        yield f"the receipt ends {'landed' if landed else 'not landed'}, the outcome is {cell['outcome']}"
    unnamed = [one for one in own or () if landed and one not in "".join(receipt.bodies)]
    if unnamed:
        yield f"the receipt says that it landed and does not name {', '.join(unnamed)}, which the service has"
