"""Surveying a project's source for outside effects that are not gated. Read with `ast` alone; nothing of the project is run.

What is found is a hint from names and calls, not a proof: a call that is hidden behind another module is not seen.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SKIPPED = {"node_modules", "site-packages", "__pycache__", "build", "dist", "venv", "env", "tests", "test"}
_LARGEST_BYTES = 1_000_000
_MOST_FILES = 5_000

_STACK = {
    "langgraph": "langgraph",
    "langchain": "langchain",
    "langchain_core": "langchain",
    "agents": "openai-agents",
    "google.adk": "adk",
    "pydantic_ai": "pydantic-ai",
    "fastmcp": "fastmcp",
    "mcp": "mcp",
    "anthropic": "anthropic",
    "openai": "openai",
    "temporalio": "temporal",
}
_TOOL_MARKS = {"tool", "tool_plain", "function_tool", "beta_tool", "beta_async_tool"}
_TOOL_MAKERS = {"FunctionTool", "StructuredTool", "Tool", "function_tool", "from_function", "add_function"}
_GATED_MARKS = {"effect"}

_CALLS: tuple[tuple[str, str], ...] = (
    (
        r"(^|\.)(refunds|charges|payment_intents|transfers|payouts|invoices|subscriptions|credit_notes|balance_transactions)"
        r"\.(create|update|cancel|confirm|capture|pay|delete)(_async)?$",
        "writes to Stripe",
    ),
    (r"stripe\b.*\.(create|update|cancel|confirm|capture|pay|void|delete|reverse)(_async)?$", "writes to Stripe"),
    (r"(requests|httpx|session|client|http)\.(post|put|patch|delete)$", "sends an HTTP request that may write"),
    (r"(^|\.)(sendmail|send_message)$", "sends a message"),
    (
        r"(^|\.)(put_item|put_object|delete_object|delete_item|update_item|publish|invoke|run_instances|terminate_instances)$",
        "writes through boto3 or a queue",
    ),
    (r"(^|\.)(chat_postMessage|chat_update|files_upload_v2)$", "writes to Slack"),
    (r"(^|\.)(create_issue|create_pull|create_comment|create_git_ref|merge)$", "writes to GitHub"),
    (r"(twilio|messages|calls)\.create$", "sends through a messaging service or a model"),
    (r"(sendgrid|sg|SendGridAPIClient)\b.*\.send$|resend\.Emails\.send$", "sends mail"),
    (r"(events|files|drafts|messages)\(\)\.(insert|update|delete|send|patch)$", "writes through a Google API"),
)
_MODEL_CALL = re.compile(r"(^|\.)(chat\.completions|responses|(beta\.)?messages|completions|embeddings)\.create$")
_SQL = re.compile(r"\s*(insert|update|delete|merge|drop|alter|truncate)\b", re.IGNORECASE)
_NAMES = re.compile(
    r"(^|_)(refund|pay|charge|transfer|payout|send|email|delete|remove|create|update|cancel|book|merge|deploy|publish|post|issue|grant|revoke|submit|order)(_|$)"
)
_READS = re.compile(r"^(get|read|list|fetch|find|search|lookup|look_up|show|describe|check)(_|$)")
_FINDS = re.compile(r"^(find|search|lookup|look_up|list)(_|$)")
_ID = re.compile(
    r"(^|_)(id|ids|number|ref|sku|uuid|code)$|^(order|invoice|charge|payment_intent|ticket|account|customer)$"
)
_CARRIES = re.compile(r"^(idempotency_key|idempotency|reference|request_id|client_token|client_reference)$")


@dataclasses.dataclass
class Finding:
    """One tool or function with an outside effect that is not gated.

    Attributes:
        why: what it was recognised by.
        key: parameters that could name the approved request, the likeliest first.
        tier: what can be kept without further declarations, and what would raise it.
        proposal: configuration or code to start from.
    """

    file: str
    line: int
    name: str
    is_tool: bool
    why: list[str]
    key: list[str]
    carries: str
    premises: list[str]
    lookups: list[str]
    tier: str
    ready_made: str
    proposal: str


@dataclasses.dataclass
class Survey:
    """What was found.

    Attributes:
        unclear: what could not be judged, with its place.
    """

    files: int
    stack: list[str]
    gated: list[str]
    findings: list[Finding]
    unclear: list[str]

    def as_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return dataclasses.asdict(self)


@dataclasses.dataclass
class _Function:
    file: str
    line: int
    name: str
    parameters: list[str]
    is_tool: bool
    is_gated: bool
    says: str  # what its annotations say: "reads", "writes" or nothing
    why: list[str]


def survey(place: Path) -> Survey:
    """Look at a directory or a file."""
    functions: list[_Function] = []
    stack: set[str] = set()
    gated: set[str] = set()
    tools: set[str] = set()
    unclear: list[str] = []
    files = 0
    for path in _sources(place):
        where = str(path.relative_to(place)) if place.is_dir() else path.name
        if path.suffix == ".json":
            gated |= _configured(path)
            continue
        if path.suffix != ".py":
            continue
        if files >= _MOST_FILES:
            unclear.append(f"more than {_MOST_FILES} Python files; the rest was left out")
            break
        files += 1
        try:
            if path.stat().st_size > _LARGEST_BYTES:
                unclear.append(f"{where}: larger than {_LARGEST_BYTES} bytes")
                continue
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, RecursionError, OSError) as error:
            unclear.append(f"{where}:{getattr(error, 'lineno', None) or 1}: cannot be read as Python: {error}")
            continue
        stack |= set(_stack(tree))
        inner_gated, inner_tools = _handed_over(tree)
        gated |= inner_gated
        tools |= inner_tools
        functions += _functions(tree, where)
        unclear += _loose(tree, where)
    for function in functions:
        function.is_tool = function.is_tool or function.name in tools
        if function.is_gated:
            gated.add(function.name)
    readers = [function for function in functions if function.is_tool and _reads(function)]
    findings = [
        _finding(function, [reader for reader in readers if reader.name != function.name])
        for function in functions
        if function.name not in gated and _acts(function)
    ]
    findings.sort(key=lambda finding: (finding.file, finding.line))
    judged = {finding.name for finding in findings} | gated | {reader.name for reader in readers}
    for function in functions:
        if function.is_tool and function.name not in judged:
            unclear.append(
                f"{function.file}:{function.line}: tool {function.name}: nothing tells whether it writes or reads"
            )
    return Survey(files, sorted(stack), sorted(gated), findings, sorted(set(unclear)))


def _sources(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
        return
    for directory, inner, files in os.walk(place):
        inner[:] = sorted(name for name in inner if name not in _SKIPPED and not name.startswith("."))
        for name in sorted(files):
            if name.endswith((".py", ".json")):
                yield Path(directory, name)


def _configured(path: Path) -> set[str]:
    """The tools that a configuration file gates."""
    try:
        said = json.loads(path.read_text("utf-8")) if path.stat().st_size < _LARGEST_BYTES else None
    except (ValueError, OSError, RecursionError):
        return set()
    tools = said.get("tools") if isinstance(said, dict) else None
    if not isinstance(tools, dict):
        return set()
    return {name for name, how in tools.items() if isinstance(how, dict) and "key" in how}


def _stack(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            for module, label in _STACK.items():
                if name == module or name.startswith(module + "."):
                    yield label


def _handed_over(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Names that a configuration in the source gates, and functions that are handed to a framework as tools."""
    gated: set[str] = set()
    tools: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for name, value in zip(node.keys, node.values, strict=True):
                if not isinstance(name, ast.Constant) or not isinstance(value, ast.Dict | ast.Call | ast.Name):
                    continue
                if isinstance(value, ast.Call) and _dotted(value.func).endswith("Effect"):
                    gated.add(str(name.value))
                if name.value == "tools" and isinstance(value, ast.Dict):
                    gated |= {str(key.value) for key in value.keys if isinstance(key, ast.Constant)}
            pairs = {k.value: v for k, v in zip(node.keys, node.values, strict=True) if isinstance(k, ast.Constant)}
            named = pairs.get("name")
            if isinstance(named, ast.Constant) and ("input_schema" in pairs or "parameters" in pairs):
                tools.add(str(named.value))
        elif isinstance(node, ast.Call):
            called = _dotted(node.func).rpartition(".")[2]
            lists = [word.value for word in node.keywords if word.arg == "tools"]
            lists += list(node.args[:1]) if called in _TOOL_MAKERS | {"protect", "protect_tools"} else []
            lists += [
                word.value for word in node.keywords if word.arg in ("func", "coroutine") and called in _TOOL_MAKERS
            ]
            for given in lists:
                each = given.elts if isinstance(given, ast.List | ast.Tuple) else [given]
                tools |= {
                    _dotted(item).rpartition(".")[2] for item in each if isinstance(item, ast.Name | ast.Attribute)
                }
    return gated, tools


def _functions(tree: ast.AST, where: str) -> Iterator[_Function]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        marks = [
            _dotted(mark.func if isinstance(mark, ast.Call) else mark).rpartition(".")[2]
            for mark in node.decorator_list
        ]
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        parameters = [
            one.arg
            for one in every
            if one.arg not in ("self", "cls")
            and "Context" not in (ast.unparse(one.annotation) if one.annotation else "")
        ]
        yield _Function(
            where,
            node.lineno,
            node.name,
            parameters,
            any(mark in _TOOL_MARKS for mark in marks),
            any(mark in _GATED_MARKS or mark.startswith("stripe_") for mark in marks),
            _said(node),
            sorted({why for call in ast.walk(node) if isinstance(call, ast.Call) and (why := _effect_of(call))}),
        )


def _said(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """What MCP annotations at the decorator say."""
    text = " ".join(ast.unparse(mark) for mark in node.decorator_list)
    if re.search(r"readOnlyHint['\"]?\s*[=:]\s*True", text):
        return "reads"
    return "writes" if re.search(r"readOnlyHint['\"]?\s*[=:]\s*False|destructiveHint['\"]?\s*[=:]\s*True", text) else ""


def _loose(tree: ast.AST, where: str) -> Iterator[str]:
    """Effects that stand outside of any function."""
    inside = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and id(node) not in inside and (why := _effect_of(node)):
            yield f"{where}:{node.lineno}: {why}, outside of any function; put it into one to gate it"


def _effect_of(call: ast.Call) -> str:
    """What a call does outside, as far as its name tells; empty if nothing."""
    name = _dotted(call.func)
    first = call.args[0] if call.args else None
    if _MODEL_CALL.search(name) and "twilio" not in name and any(word.arg == "model" for word in call.keywords):
        return ""  # a question to a model changes nothing
    if name.endswith((".execute", ".executemany")):
        text = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
        return "writes to a database" if _SQL.match(text) else ""
    if name.startswith("subprocess.") and first is not None:
        words = ast.unparse(first).replace("'", " ").replace('"', " ").replace(",", " ").split()
        return "runs git push" if "git" in " ".join(words) and "push" in words else ""
    return next((why for pattern, why in _CALLS if re.search(pattern, name)), "")


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return f"{_dotted(node.func)}()" if isinstance(node, ast.Call) else ""


def _reads(function: _Function) -> bool:
    return not function.why and (function.says == "reads" or bool(_READS.match(function.name)))


def _acts(function: _Function) -> bool:
    if function.is_gated or function.says == "reads":
        return False
    if function.why:
        return True
    return (
        function.is_tool and not _reads(function) and (function.says == "writes" or bool(_NAMES.search(function.name)))
    )


def _finding(function: _Function, readers: list[_Function]) -> Finding:
    why = [*function.why, *(["its annotation says that it writes"] if function.says == "writes" else [])]
    why = why or ["a tool whose name says that it changes something"]
    carries = next((name for name in function.parameters if _CARRIES.match(name)), "")
    key = [name for name in function.parameters if _ID.search(name) and name != carries]
    finds = [reader for reader in readers if _FINDS.match(reader.name)]
    facts = [reader for reader in readers if reader not in finds]
    stripe = "refund" in function.name and any("Stripe" in said for said in function.why)
    if carries:
        tier = f"2 with a look-up by {carries!r}, 1 if the service drops a second request with that key (dedupes); 3 as it stands"
    else:
        tier = "3: after a crash nobody can know. An argument that carries the idempotency key to the service would raise it"
    how: dict[str, Any] = {"key": key[:1] or ["NAME_AN_ID"]}
    if facts:
        shared = [name for name in facts[0].parameters if name in function.parameters]
        how["premises"] = {
            "tool": facts[0].name,
            "arguments": {name: name for name in shared},
            "fields": ["NAME_A_FIELD"],
        }
    if carries:
        how["idempotency_argument"] = carries
        if finds and finds[0].parameters:
            how["lookup"] = {
                "tool": finds[0].name,
                "arguments": {finds[0].parameters[0]: "$effect_id"},
                "found": "NAME_A_FIELD",
            }
    proposal = json.dumps({"tools": {function.name: how}}, indent=2)
    if not function.is_tool:
        named = ", ".join(key[:1])
        text = f'f"{function.name}:{{{named}}}"' if named else '"NAME_THE_REQUEST"'
        proposal = f"@gate.effect(key=lambda {named + ', ' if named else ''}**_: {text})\ndef {function.name}(..., idempotency_key): ..."
    return Finding(
        function.file,
        function.line,
        function.name,
        function.is_tool,
        why,
        key,
        carries,
        [reader.name for reader in facts],
        [reader.name for reader in finds],
        tier,
        "interlock.targets.stripe.stripe_refund" if stripe else "",
        proposal,
    )
