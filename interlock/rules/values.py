"""Values: Python arguments, facts and results, and their JSON form.

What is sent is what was recorded: an argument is encoded once, and what the function gets is decoded from that, on the first call
as after a crash. So an argument must have a faithful JSON form, or it is refused at the door. A result is different: the effect
has landed, so its form is the best one there is, and never an error.

JSON's own types stand for themselves. Decimal, datetime, date, time, timedelta, UUID, bytes and tuple are tagged (`{"$decimal": "20.00"}`).
Anything else (dataclasses, pydantic models, enums, ...) needs an annotation, through which pydantic writes it and reads it back.
Knows nothing of entries or of services.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pydantic
from pydantic_core import from_json, to_json

from interlock.errors import BadInput, NotSerializable
from interlock.rules.canonical import canonical_bytes

SCALARS = frozenset({str, bool, int, float, type(None)})
"""The types of values that stand for themselves and hold nothing."""


def _clock_text(value: datetime | time) -> str | list[Any]:
    """Its ISO form; with its `fold` where that alone tells which of two moments it is, on the night when clocks are put back."""
    text = value.isoformat()
    if value.utcoffset() is not None:
        return text
    if value.tzinfo is not None:  # a zone whose offset depends on a day that is not there: the text would drop it
        raise _NotPlain(value)
    return [text, value.fold] if value.fold else text


def _clock_of(kind: Any) -> Callable[[Any], Any]:
    """What reads such a text back."""

    def read(written: str | list[Any]) -> Any:
        if isinstance(written, str):
            return kind.fromisoformat(written)
        text, fold = written
        return kind.fromisoformat(text).replace(fold=fold)

    return read


_TAGS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    Decimal: ("$decimal", str),
    datetime: ("$datetime", _clock_text),
    date: ("$date", date.isoformat),
    time: ("$time", _clock_text),
    timedelta: ("$duration", lambda value: [value.days, value.seconds, value.microseconds]),
    UUID: ("$uuid", str),
    bytes: ("$bytes", lambda value: base64.b64encode(value).decode("ascii")),
}
_UNTAG: dict[str, Callable[[Any], Any]] = {
    "$decimal": Decimal,
    "$datetime": _clock_of(datetime),
    "$date": date.fromisoformat,
    "$time": _clock_of(time),
    "$duration": lambda parts: timedelta(*parts),
    "$uuid": UUID,
    "$bytes": base64.b64decode,
    "$tuple": lambda items: tuple(decode(item) for item in items),
    "$map": lambda pairs: {key: decode(item) for key, item in pairs},
}


class _ModelAdapter:
    """What a `pydantic.TypeAdapter` is for other types: a model needs none, and a process that has only models saves its import."""

    def __init__(self, model: type[pydantic.BaseModel]) -> None:
        self.validate_python = model.model_validate
        self.dump_python = model.__pydantic_serializer__.to_python


class Annotation:
    """An annotated type, through which pydantic writes a value and reads it back. Built when it is first needed: most never are.

    Args:
        hint: the type, as `typing.get_type_hints` gives it.
    """

    __slots__ = ("_adapter", "_hint", "_is_built")

    def __init__(self, hint: Any) -> None:
        self._hint = hint
        self._adapter: pydantic.TypeAdapter[Any] | _ModelAdapter | None = None
        self._is_built = False

    def adapter(self) -> pydantic.TypeAdapter[Any] | _ModelAdapter | None:
        """What writes and reads it; None for a type that pydantic does not know."""
        if not self._is_built:
            try:
                self._adapter = _ModelAdapter(self._hint) if _is_model(self._hint) else pydantic.TypeAdapter(self._hint)
            except Exception:  # noqa: BLE001 - pydantic raises several types for a type that it does not know
                self._adapter = None
            self._is_built = True
        return self._adapter


def _is_model(hint: Any) -> bool:
    """Whether it is a pydantic model that can be used as it stands: none of its fields waits for a name."""
    return isinstance(hint, type) and issubclass(hint, pydantic.BaseModel) and hint.__pydantic_complete__


DEEPEST = 100
"""How deep an argument or a fact may be nested: what writes the journal gives up at some 250, and a fact is stored some way down."""


def encode(value: Any, annotation: Annotation | None = None, *, what: str = "value") -> Any:
    """The faithful JSON form of an argument or a fact.

    Args:
        value: what to encode.
        annotation: through which a type that JSON does not know is written, if the parameter has one.
        what: what it is called in the error.

    Raises:
        NotSerializable: there is no faithful form; says what to do.
    """
    if type(value) in SCALARS:
        return value
    try:
        return _encode_plain(value)
    except _NotPlain as stranger:
        return _encode_typed(value, annotation, what, stranger.value)
    except RecursionError:
        raise NotSerializable(f"{what} holds itself, or is nested too deeply. Pass plain values.") from None


class _NotPlain(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def _encode_plain(value: Any, depth: int = 0) -> Any:
    kind = type(value)
    if kind in SCALARS:
        return value
    if depth > DEEPEST:
        raise RecursionError
    if kind is list:
        return [_encode_plain(item, depth + 1) for item in value]
    if kind is dict:
        if not all(type(key) is str for key in value):
            raise _NotPlain(value)
        if any(key.startswith("$") for key in value):
            return {"$map": [[key, _encode_plain(item, depth + 1)] for key, item in value.items()]}
        return {key: _encode_plain(item, depth + 1) for key, item in value.items()}
    if kind is tuple:
        return {"$tuple": [_encode_plain(item, depth + 1) for item in value]}
    if kind in _TAGS:
        tag, write = _TAGS[kind]
        return {tag: write(value)}
    raise _NotPlain(value)


def _encode_typed(value: Any, annotation: Annotation | None, what: str, stranger: Any) -> Any:
    adapter = annotation.adapter() if annotation is not None else None
    found = f"{what} holds a {type(stranger).__module__}.{type(stranger).__qualname__}"
    if adapter is None:
        if isinstance(stranger, Enum) or hasattr(stranger, "__dataclass_fields__") or hasattr(stranger, "model_dump"):
            remedy = "Annotate the parameter with its type, so that it can be rebuilt after a restart."
        else:
            remedy = (
                "Pass plain values (an id instead of an object), annotate the parameter with a dataclass or a pydantic model, "
                "or, if it is no part of what is sent, name it in ignore= and give recovery its own through context=."
            )
        raise NotSerializable(f"{found}, which has no JSON form that can be rebuilt after a restart. {remedy}")
    try:
        written = adapter.dump_python(value, mode="json", warnings="error")
        json.dumps(written, allow_nan=False)
        rebuilt = adapter.validate_python(written)
    except Exception as error:
        raise NotSerializable(
            f"{found}, which its annotation cannot write and read back: {words_of(error)}. Correct the annotation."
        ) from error
    if type(rebuilt) is not type(value) or rebuilt != value:
        raise NotSerializable(
            f"{found}; read back through its annotation it is {rebuilt!r}, not {value!r}, so what is sent after a crash would "
            "differ. Correct the annotation or the value."
        )
    return {"$typed": written}


def decode(encoded: Any, annotation: Annotation | None = None) -> Any:
    """The value that `encode` was given.

    Raises:
        NotSerializable: it was written through an annotation that is no longer there, or no longer fits.
    """
    kind = type(encoded)
    if kind is list:
        return [decode(item, annotation) for item in encoded]
    if kind is not dict:
        return encoded
    if len(encoded) == 1:
        ((tag, inner),) = encoded.items()
        if tag in _UNTAG:
            return _UNTAG[tag](inner)
        if tag == "$typed":
            adapter = annotation.adapter() if annotation is not None else None
            if adapter is None:
                raise NotSerializable(
                    "the journal holds a value that was written through a parameter's annotation, and the parameter has none "
                    "now. Put the annotation back, so that the open effect can be recovered."
                )
            try:
                return adapter.validate_python(copy.deepcopy(inner))  # pydantic may hand parts of it on as they are
            except Exception as error:
                raise NotSerializable(
                    f"the journal holds a value that the parameter's annotation no longer reads: {words_of(error)}. Keep reading the old "
                    "form until the open effects are settled."
                ) from error
    return {key: decode(item, annotation) for key, item in encoded.items()}


# Of its own, since the program's own decimal context may round: two amounts would have one fingerprint.
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])


def fingerprint(encoded: Any, *, what: str = "value") -> bytes:
    """Canonical bytes of an encoded value; decimals by value, so that 20.0 and 20.00 are one amount.

    Raises:
        NotSerializable: NaN, an infinity, or an integer of 2^53 or more.
    """
    return canonical_bytes(by_value(encoded), what=what)


def by_value(encoded: Any) -> Any:
    """An encoded value in the form that is compared and fingerprinted: decimals without trailing zeros."""
    kind = type(encoded)
    if kind is dict:
        if len(encoded) == 1 and "$decimal" in encoded:
            number = Decimal(encoded["$decimal"])
            return {"$decimal": str(number.normalize(_EXACT)) if number.is_finite() else str(number)}
        return {key: item if type(item) in SCALARS else by_value(item) for key, item in encoded.items()}
    if kind is list:
        return [by_value(item) for item in encoded]
    return encoded


def encode_result(raw: Any, annotation: Annotation | None = None) -> Any:
    """The JSON form of a result. Never raises: what cannot be written is kept as its `repr`, under that name."""
    try:
        adapter = annotation.adapter() if annotation is not None else None
        plain = raw if adapter is None else adapter.dump_python(raw, mode="json", warnings=False)
        text = to_json(plain, fallback=_as_plain, inf_nan_mode="strings", bytes_mode="base64")
        return from_json(text)
    except Exception:  # noqa: BLE001 - the effect has landed; a result that cannot be written must not hide that
        return {"repr": repr_of(raw)}


def decode_result(written: Any, annotation: Annotation | None = None) -> Any:
    """The result in the type of the return annotation; its JSON form where there is none or it does not fit."""
    adapter = annotation.adapter() if annotation is not None else None
    if adapter is None or written is None:
        return written
    try:
        return adapter.validate_python(written)
    except Exception:  # noqa: BLE001 - the type's own code may raise anything, and the effect has landed
        return written


def repr_of(value: Any) -> str:
    """`repr` that cannot fail and can be stored."""
    try:
        return ascii(value)[:2000]
    except Exception as error:  # noqa: BLE001 - a broken __repr__ must not hide what it was about
        return f"<{type(value).__name__} whose repr failed: {type(error).__name__}>"


def text_of(error: BaseException) -> str:
    """An exception in words. Cannot fail, and can be stored whatever the exception's own text is or holds."""
    name = type(error).__name__
    try:
        return storable(f"{name}: {error}"[:2000])
    except Exception:  # noqa: BLE001 - a broken __str__ must not hide what it was about
        return f"{name}, whose own text cannot be read"


def raised_by(error: BaseException) -> str:
    """An exception in words, as the end of a sentence."""
    return f"{text_of(error).removesuffix('.')}."


def what_then(error: BaseException, what: str) -> str:
    """What to do about a callback that raised: of what it says is wrong itself, no later call changes anything."""
    return "correct it." if isinstance(error, BadInput) else f"ask again when {what} can be read."


def words_of(error: BaseException) -> str:
    """An exception's own text, without its name. Cannot fail, and can be stored."""
    try:
        return storable(str(error))
    except Exception:  # noqa: BLE001 - a broken __str__ must not hide what it was about
        return text_of(error)


def raised_in(error: BaseException) -> str:
    """An exception in one line for a log: its text, shortened, and where in the user's own code it came from."""
    text = " ".join(text_of(error)[:500].split())
    place = ""
    trace = error.__traceback__
    while trace is not None:
        code, module = trace.tb_frame.f_code, str(trace.tb_frame.f_globals.get("__name__", ""))
        is_theirs = module != "interlock" and not module.startswith("interlock.") and not _is_library(code.co_filename)
        if is_theirs or (trace.tb_next is None and not place):
            place = f", in {code.co_name} ({code.co_filename}:{trace.tb_lineno})"
        trace = trace.tb_next
    return storable(text + place)


def _is_library(file: str) -> bool:
    """Whether a file belongs to Python itself or to an installed package."""
    return file.startswith(("<", _PYTHON)) or "site-packages" in file or "dist-packages" in file


_PYTHON = json.__file__[: json.__file__.rindex("json")]
"""The directory of the standard library."""


def is_text(value: Any) -> bool:
    """Whether it is a text that can be stored as it is."""
    return isinstance(value, str) and storable(value) == value


def storable(text: str) -> str:
    """The text with halves of surrogate pairs written out: services cut emoji in two, and the journal is UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _as_plain(value: Any) -> Any:
    for method in ("to_dict", "model_dump", "_asdict"):
        convert = getattr(value, method, None)
        if callable(convert):
            return convert()
    if isinstance(value, Mapping):
        return dict(value)
    return {"repr": repr_of(value)}
