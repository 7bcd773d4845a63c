"""Source as the report prints it: one function cut out of its module, and how many lines of code it is.

Owns what counts as a line of code: not blank, not a comment, not a docstring.
"""

from __future__ import annotations

import ast
import io
import textwrap
import tokenize
from pathlib import Path

from benchmarks.harness.document import Listing

_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def cut(file: Path, function: str, *, title: str, text: str = "") -> Listing:
    """One function of a file, with its decorators and without its docstring.

    Args:
        file: The module.
        function: Its name, wherever it is nested; `outer.inner` for one of several of the same name.
        title: Heads the listing.
        text: Stands between the heading and the source.

    Raises:
        LookupError: The file has no function of this name.
    """
    source = file.read_text(encoding="utf-8")
    node: ast.AST = ast.parse(source)
    for name in function.split("."):
        node = _find(node, name, file)
    assert isinstance(node, ast.FunctionDef)
    return _listing(source.splitlines(), node, title, text)


def code_lines(source: str) -> int:
    """How many lines are code: not blank, not a comment alone, not part of a docstring."""
    # A region may return, which only a function may.
    tree = ast.parse("async def region():\n" + textwrap.indent(source, "    ") + "\n    pass")
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings |= set(range(node.lineno - 1, (node.end_lineno or node.lineno)))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings)


def _find(scope: ast.AST, name: str, file: Path) -> ast.FunctionDef:
    for node in ast.walk(scope):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise LookupError(f"{file.name} has no function {name!r}")


def _listing(lines: list[str], node: ast.FunctionDef, title: str, text: str) -> Listing:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    kept = dict(enumerate(lines, 1))
    if ast.get_docstring(node) is not None:
        docstring = node.body[0]
        for number in range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1):
            del kept[number]
    last = node.end_lineno or node.lineno
    body = textwrap.dedent("\n".join(line for number, line in kept.items() if first <= number <= last))
    return Listing(title=title, source=body, lines=code_lines(body), text=text)
