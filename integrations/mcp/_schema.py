"""Schemas: whether a call's arguments fit the JSON Schema of a tool, where nothing but its schema is known of it.

Owns the one use of jsonschema, so that a server that judges its own tools needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

try:
    import jsonschema  # type: ignore[import-untyped]
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "jsonschema":
        raise
    from interlock import ConfigurationError

    raise ConfigurationError('MCP is not installed: pip install "interlock-gate[mcp]".') from error

from interlock.integrations.mcp._face import Face


def misfit_of_schema(face: Face, given: Mapping[str, Any]) -> str:
    """Why arguments do not fit the schema that a client is shown; empty if they do."""
    try:
        found = next(iter(jsonschema.Draft202012Validator(face.schema).iter_errors(given)), None)
    except Exception:  # noqa: BLE001 - a schema that is no schema judges nothing; the server itself will
        return ""
    if found is None:
        return ""
    place = ".".join(map(str, found.absolute_path))
    return f"{place}: {found.message}." if place else f"{found.message}."
