"""Which model decides: the scripted one by default, a vendor's when asked for and its key is set, or a small one on this machine.

Owns what each choice needs and the error that says so. A vendor's key is read by its SDK from the environment and goes nowhere else.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import cast

from benchmarks.harness.suite import CannotRun
from benchmarks.services.model import LocalModel
from benchmarks.services.model.launcher import ModelError
from benchmarks.services.model.small import open_small
from benchmarks.suites.e2e.case import ModelDoor, ModelKind, Wire

WIRES: tuple[Wire, ...] = ("openai-chat", "anthropic", "openai-responses", "gemini")


@dataclass(frozen=True)
class Vendor:
    """A vendor's model: the variable with its key, its wire, and which model if none is named."""

    variable: str
    wire: Wire
    model: str


VENDORS: Mapping[str, Vendor] = {
    "anthropic": Vendor("ANTHROPIC_API_KEY", "anthropic", "claude-haiku-4-5"),
    "openai": Vendor("OPENAI_API_KEY", "openai-responses", "gpt-5-mini"),
    "gemini": Vendor("GEMINI_API_KEY", "gemini", "gemini-2.5-flash"),
}
CHOICES = ("scripted", *VENDORS, "local")


LOCAL_WIRE: Wire = "openai-chat"
SDKS: Mapping[Wire, str] = {
    "anthropic": "anthropic",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "gemini": "google-genai",
}
"""The official SDK that a wire is driven through."""


class ModelMissing(CannotRun):
    """The model that was asked for cannot be had; the message says what to do."""


@contextlib.contextmanager
def open_model(kind: str, name: str | None = None) -> Iterator[Sequence[ModelDoor]]:
    """The doors to the model, one for each wire it is driven over; repetitions take them in turn.

    Raises:
        ModelMissing: A vendor's key is not set, or the local model is not installed.
    """
    wires: Sequence[Wire] = WIRES
    if kind != "scripted":
        wires = [VENDORS[kind].wire if kind in VENDORS else LOCAL_WIRE]
    missing = sorted({SDKS[wire] for wire in wires if not _is_installed(SDKS[wire])})
    if missing:
        raise ModelMissing(
            f"--model {kind} is driven through official SDKs that are missing: pip install {' '.join(missing)}"
        )
    if kind in VENDORS:
        vendor = VENDORS[kind]
        if not os.environ.get(vendor.variable):
            raise ModelMissing(f"--model {kind} needs {vendor.variable}; it is not set. --model scripted needs no key.")
        yield [ModelDoor(kind=cast(ModelKind, kind), wire=vendor.wire, name=name or vendor.model)]
    elif kind == "local":
        with contextlib.ExitStack() as stack:
            try:
                small = stack.enter_context(open_small())
            except ModelError as error:
                raise ModelMissing(str(error)) from error
            yield [ModelDoor(kind="local", wire=LOCAL_WIRE, name=small.name, url=small.url)]
    else:
        with LocalModel() as scripted:
            yield [ModelDoor(wire=wire, url=scripted.url) for wire in WIRES]


def _is_installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True
