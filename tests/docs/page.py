"""Runs the Python of a Markdown page. Owns how a page is cut into blocks and what a block has to do; knows no page.

Every block marked `python` on a page runs, in order, in one namespace, as a reader would type them in. There is no way to leave
one out: what cannot run is not marked as Python. A comment behind `print(...)` is what it prints:

    print(outcome)  # COMMITTED

Top-level `await` works, as it does in `python -m asyncio`.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[\w+-]*)[^\n`]*\n(?P<body>.*?)^(?P=indent)```[ ]*$", re.MULTILINE | re.DOTALL
)
_PRINTED = re.compile(r"^\s*print\(.*\)\s+# (?P<text>.+)$")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page.

    Attributes:
        page: name of the page, for tracebacks.
        line: line of the page on which the block's first line stands, from 1.
        language: the word behind the fence.
        source: what is between the fences, without the indentation of a list that it may stand in.
    """

    page: str
    line: int
    language: str
    source: str

    @property
    def printed(self) -> list[str]:
        """What the comments say that the block prints."""
        return [match["text"].strip() for line in self.source.splitlines() if (match := _PRINTED.match(line))]

    def run(self, namespace: dict[str, Any], runner: asyncio.Runner) -> None:
        """Run the block, and compare what it prints with what it says that it prints.

        Raises:
            AssertionError: it printed something else.
            BaseException: whatever the block raises; its traceback names the page and the line.
        """
        # Empty lines in front make the line numbers those of the page.
        padded = "\n" * (self.line - 1) + self.source
        code = compile(padded, self.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            if code.co_flags & inspect.CO_COROUTINE:
                runner.run(_awaited(code, namespace))
            else:
                exec(code, namespace)
        if self.printed:
            assert output.getvalue().splitlines() == self.printed, f"{self.page}:{self.line}: prints something else"


async def _awaited(code: Any, namespace: dict[str, Any]) -> None:
    await eval(code, namespace)


def blocks(page: str, text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start("body")) + 1
        yield Block(page, line, match["language"], textwrap.dedent(match["body"]))


def run_page(page: str, text: str, namespace: dict[str, Any]) -> int:
    """Run every Python block of a page in the given namespace; return how many there were."""
    count = 0
    with asyncio.Runner() as runner:
        for block in blocks(page, text):
            if block.language in ("python", "py", "python3"):
                block.run(namespace, runner)
                count += 1
    return count
