"""One Python file, read with `ast` alone: its functions and what they call, what is handed over as a tool, what is gated.

Owns what can be seen in one file. It must not know other files or what is proposed. Nothing of the file is run.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections import deque
from collections.abc import Iterator, Sequence

from interlock.cli import known

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclasses.dataclass
class Function:
    """A function of the project.

    Attributes:
        name: its name; `tool` is what it is called as a tool, if it says so itself.
        parameters: what a caller gives; without self and a framework's context.
        types: their annotations, as they are written.
        fields: what the body reads of a parameter that is an object: the path, and the code that reads it.
        says: what its annotations say: "reads", "writes" or nothing.
        why: what it was recognised by.
        calls: what it calls, with dots; of a function inside it only the name.
        acts: those of them that act outside.
        uses: the names that its body mentions, with dots: what it calls, and what it hands over as a value.
        gives: the fields of the dict that it returns, as far as they can be seen.
    """

    file: str
    line: int
    name: str
    tool: str
    parameters: list[str]
    types: dict[str, str]
    fields: dict[str, dict[str, str]]
    is_tool: bool
    is_gated: bool
    is_async: bool
    is_method: bool
    says: str
    why: list[str]
    calls: set[str]
    acts: set[str]
    uses: set[str]
    gives: list[str]

    @property
    def place(self) -> str:
        """Its name, and where it stands."""
        return f"{self.name} ({self.file}:{self.line})"


@dataclasses.dataclass
class Source:
    """What one file holds.

    Attributes:
        gated: names that a configuration in the file, or a call of ours, gates.
        tools: functions that are handed to a framework, and the names they get as tools.
        says: what annotations at the hand-over say of a function: "reads" or "writes".
        doors: variables that stand for a gated function, such as a ready-made effect.
        weak: gated names with neither look-up nor dedupe key, and their place.
        loose: the names that are mentioned outside of any function.
        records: classes that have fields.
        unclear: what could not be judged, with its place.
    """

    functions: list[Function] = dataclasses.field(default_factory=list)
    stack: set[str] = dataclasses.field(default_factory=set)
    gated: set[str] = dataclasses.field(default_factory=set)
    tools: dict[str, str] = dataclasses.field(default_factory=dict)
    says: dict[str, str] = dataclasses.field(default_factory=dict)
    doors: set[str] = dataclasses.field(default_factory=set)
    weak: dict[str, str] = dataclasses.field(default_factory=dict)
    loose: set[str] = dataclasses.field(default_factory=set)
    records: set[str] = dataclasses.field(default_factory=set)
    unclear: list[str] = dataclasses.field(default_factory=list)


def read(text: bytes, *, where: str) -> Source:
    """Read a file.

    Raises:
        SyntaxError, ValueError, RecursionError: it is no Python.
    """
    tree = ast.parse(text)
    names = _Names(tree)
    found = Source(stack=set(_stack(tree)))
    methods = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for inner in node.body}
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, FunctionNode):
            inside |= {id(inner) for inner in ast.walk(node)}
            found.functions.append(_function(node, where, names, is_method=id(node) in methods))
            if any(_is_weak(mark) for mark in node.decorator_list):
                found.weak[node.name] = f"{where}:{node.lineno}"
        elif isinstance(node, ast.ClassDef) and any(isinstance(inner, ast.AnnAssign) for inner in node.body):
            found.records.add(node.name)
    found.loose = set(_mentioned(tree, names))
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            _read_dict(node, names, found, where)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            made = names.dotted(node.value.func)
            if made.startswith("interlock.targets.") or made.rpartition(".")[2].removesuffix("()") in known.GATED_MARKS:
                found.doors |= {_last(target) for target in node.targets}
        elif isinstance(node, ast.Call):
            _read_call(node, names, found, where)
            if id(node) not in inside and (why := _effect_of(node, names)):
                found.unclear.append(
                    f"{where}:{node.lineno}: {why}, outside of any function; put it into one to gate it"
                )
    return found


class _Names:
    """What a name of the file stands for: an imported module, or what a variable was made by."""

    def __init__(self, tree: ast.AST) -> None:
        self._of: dict[str, str] = {}
        self.dicts: dict[str, ast.Dict] = {}
        self.lists: dict[str, list[ast.expr]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._of |= {
                    one.asname or one.name.partition(".")[0]: one.name if one.asname else one.name.partition(".")[0]
                    for one in node.names
                }
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                self._of |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        for node in ast.walk(tree):
            for name, value in _bound(node):
                if isinstance(value, ast.Dict):
                    self.dicts[name] = value
                elif isinstance(value, ast.List | ast.Tuple):
                    self.lists.setdefault(name, []).extend(value.elts)
                elif isinstance(value, ast.Call | ast.Await) and name not in self._of:
                    made = self.dotted(value.value if isinstance(value, ast.Await) else value)
                    if made.partition(".")[0].removesuffix("()") in self._modules:
                        self._of[name] = made

    @property
    def _modules(self) -> set[str]:
        return {whole.partition(".")[0] for whole in self._of.values()}

    def dotted(self, node: ast.AST) -> str:
        """A name with dots, from the module where that can be told."""
        name = dotted(node)
        for start in (name.partition(".")[0], ".".join(name.split(".")[:2])):
            bare = start.removesuffix("()")
            if bare in self._of:
                return self._of[bare] + name[len(bare) :]
        return name


def _bound(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Assign):
        yield from ((dotted(target), node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        yield dotted(node.target), node.value
    elif isinstance(node, ast.With | ast.AsyncWith):
        yield from ((dotted(item.optional_vars), item.context_expr) for item in node.items if item.optional_vars)


def dotted(node: ast.AST) -> str:
    """A name with dots, as it is written."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return f"{dotted(node.func)}()" if isinstance(node, ast.Call) else ""


def _last(node: ast.AST) -> str:
    return dotted(node).removesuffix("()").rpartition(".")[2]


def _stack(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            for module, label in known.STACK.items():
                if name == module or name.startswith(module + "."):
                    yield label


def _function(node: FunctionNode, where: str, names: _Names, *, is_method: bool) -> Function:
    marks = [(_last(mark.func if isinstance(mark, ast.Call) else mark), mark) for mark in node.decorator_list]
    tool_marks = [mark for name, mark in marks if name in known.TOOL_MARKS]
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    own = list(_own(node.body))
    calls = [inner for inner in own if isinstance(inner, ast.Call)]
    acting = {names.dotted(call.func): why for call in calls if (why := _effect_of(call, names))}
    # Names of its own, not of a function elsewhere that is called alike.
    bound = {one.arg for one in every}
    bound |= {inner.id for inner in own if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)}
    parameters = [one for one in every if one.arg not in ("self", "cls") and not _is_context(one)]
    return Function(
        file=where,
        line=node.lineno,
        name=node.name,
        tool=next((_named(mark) for mark in tool_marks if isinstance(mark, ast.Call)), "") or node.name,
        parameters=[one.arg for one in parameters],
        types={one.arg: ast.unparse(one.annotation) for one in parameters if one.annotation},
        fields=_fields(own, {one.arg for one in parameters}),
        is_tool=bool(tool_marks),
        is_gated=any(name in known.GATED_MARKS or name.startswith("stripe_") for name, _ in marks),
        is_async=isinstance(node, ast.AsyncFunctionDef),
        is_method=is_method and bool(node.args.args) and node.args.args[0].arg in ("self", "cls"),
        says=_said(node.decorator_list),
        why=sorted(set(acting.values())),
        calls={names.dotted(call.func) for call in calls if dotted(call.func) not in bound},
        acts=set(acting),
        uses={name for part in node.body for name in _mentioned(part, names)} - bound,
        gives=_given_back(node),
    )


def _own(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """All below, outer ones first; what a function inside does is its own."""
    waiting = deque(nodes)
    while waiting:
        node = waiting.popleft()
        yield node
        if not isinstance(node, FunctionNode):
            waiting.extend(ast.iter_child_nodes(node))


def _mentioned(node: ast.AST, names: _Names) -> Iterator[str]:
    """The names that are mentioned, whole: `shop.pay`, not `shop` as well. What a function inside mentions is its own."""
    inner: set[int] = set()
    for one in _own([node]):
        if isinstance(one, ast.Attribute):
            inner.add(id(one.value))
        if isinstance(one, ast.Name | ast.Attribute) and id(one) not in inner and isinstance(one.ctx, ast.Load):
            yield names.dotted(one)


def _fields(own: list[ast.AST], parameters: set[str]) -> dict[str, dict[str, str]]:
    """What is read of parameters: `order.pi`, `order["pi"]`, `order.get("pi")`. A method that is called on them is no field."""
    found: dict[str, dict[str, str]] = {}
    inner: set[int] = set()
    for node in own:
        if id(node) in inner:
            continue
        steps: list[tuple[str, str]] = []
        below: ast.AST = node
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            below = node.func.value
            inner.add(id(node.func))
            if node.func.attr == "get" and node.args and (name := _text_of(node.args[0])):
                steps = [(name, f"[{name!r}]")]
        while isinstance(below, ast.Attribute | ast.Subscript):
            name = below.attr if isinstance(below, ast.Attribute) else _text_of(below.slice)
            inner.add(id(below))
            if not name:
                break
            steps.insert(0, (name, f".{name}" if isinstance(below, ast.Attribute) else f"[{name!r}]"))
            below = below.value
        if steps and isinstance(below, ast.Name) and below.id in parameters:
            path = ".".join([below.id, *(name for name, _ in steps)])
            found.setdefault(below.id, {})[path] = below.id + "".join(code for _, code in steps)
    return found


def _text_of(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_weak(call: ast.expr) -> bool:
    """Whether a call that gates says, for all to see, neither `lookup=` nor `dedupes=`."""
    if not isinstance(call, ast.Call) or _last(call.func) not in {*known.GATED_MARKS, "Effect", "ToolConfig"}:
        return False
    words = {word.arg: word.value for word in call.keywords}
    if None in words or "lookup" in words or "key" not in words:
        return False
    return _is_no(words.get("dedupes"))


def _is_no(value: ast.AST | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and not value.value)


def _is_context(argument: ast.arg) -> bool:
    said = ast.unparse(argument.annotation) if argument.annotation else ""
    return bool(re.search(r"Context|ToolRuntime|Injected", said))


def _named(call: ast.Call) -> str:
    """What a decorator or a maker of tools says that the tool is called."""
    for word in call.keywords:
        if word.arg in ("name", "name_override") and isinstance(word.value, ast.Constant):
            return str(word.value.value)
    if call.args and isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str):
        return call.args[0].value
    return ""


def _said(nodes: list[ast.expr]) -> str:
    """What MCP annotations say."""
    text = " ".join(ast.unparse(node) for node in nodes)
    if re.search(r"read_?[oO]nly_?[hH]int['\"]?\s*[=:]\s*True", text):
        return "reads"
    writes = r"read_?[oO]nly_?[hH]int['\"]?\s*[=:]\s*False|destructive_?[hH]int['\"]?\s*[=:]\s*True"
    return "writes" if re.search(writes, text) else ""


def _given_back(node: FunctionNode) -> list[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Dict):
            keys = [key.value for key in inner.value.keys if isinstance(key, ast.Constant)]
            if keys and all(isinstance(key, str) and key.isidentifier() for key in keys):
                return [str(key) for key in keys]
    return []


def _read_dict(node: ast.Dict, names: _Names, found: Source, where: str) -> None:
    pairs = {
        key.value: value for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)
    }
    named = pairs.get("name")
    if isinstance(named, ast.Constant) and ("input_schema" in pairs or "inputSchema" in pairs or "parameters" in pairs):
        found.tools.setdefault(str(named.value), str(named.value))
        if says := _said([value for name, value in pairs.items() if name == "annotations"]):
            found.says[str(named.value)] = says
    for name, value in pairs.items():
        if isinstance(value, ast.Call) and _last(value.func) in ("Effect", "ToolConfig"):
            found.gated.add(str(name))
            found.weak |= {str(name): f"{where}:{value.lineno}"} if _is_weak(value) else {}
    tools = pairs.get("tools")
    if isinstance(tools, ast.Name):
        tools = names.dicts.get(tools.id)
    if not isinstance(tools, ast.Dict):
        return
    for key, value in zip(tools.keys, tools.values, strict=True):
        how = names.dicts.get(dotted(value)) if isinstance(value, ast.Name | ast.Attribute) else value
        # Many a dict has "tools"; ours says for each of them what its key is.
        if isinstance(key, ast.Constant) and isinstance(how, ast.Dict):
            options = {
                option.value if isinstance(option, ast.Constant) else None: said
                for option, said in zip(how.keys, how.values, strict=True)
            }
            if "key" in options:
                found.gated.add(str(key.value))
                if None not in options and "lookup" not in options and _is_no(options.get("dedupes")):
                    found.weak[str(key.value)] = f"{where}:{key.lineno}"


def _read_call(node: ast.Call, names: _Names, found: Source, where: str) -> None:
    called = _last(node.func)
    maker = node
    if isinstance(node.func, ast.Call) and _last(node.func.func) in {*known.TOOL_MARKS, *known.GATED_MARKS}:
        called, maker = _last(node.func.func), node.func  # server.tool(name=...)(function)
    given = [word.value for word in node.keywords if word.arg in ("tools", "functions", "asks")]
    if called in known.TOOL_MAKERS | known.TAKES_TOOLS:
        given += node.args[:1]
        given += [word.value for word in node.keywords if word.arg in ("func", "coroutine", "fn", "execute")]
    if called in known.GATED_MARKS:
        named = {_last(one) for one in node.args[:1] if isinstance(one, ast.Name | ast.Attribute)}
        found.gated |= named
        found.weak |= {name: f"{where}:{node.lineno}" for name in named if _is_weak(node.func)}
        return
    says = _said([*maker.args, *(word.value for word in maker.keywords)]) if called in known.TOOL_MAKERS else ""
    if says and _named(maker):
        found.tools.setdefault(_named(maker), _named(maker))
        found.says[_named(maker)] = says
    for item in (item for one in given for item in _items(one, names)):
        if isinstance(item, ast.Name | ast.Attribute) and (name := _last(item)):
            found.tools[name] = (_named(maker) if called in known.TOOL_MAKERS else "") or found.tools.get(name, name)
            if says:
                found.says[name] = says
    config = next((word.value for word in node.keywords if word.arg == "config"), None)
    config = node.args[1] if config is None and called in known.TAKES_CONFIG and len(node.args) > 1 else config
    followed = isinstance(config, ast.Dict | ast.Constant | None) or dotted(config) in names.dicts
    if called in known.TAKES_CONFIG and not followed:
        said = ast.unparse(config)[:60]  # type: ignore[arg-type]  # None counts as followed
        found.unclear.append(f"{where}:{node.lineno}: the configuration of {called}(...) was not followed: {said}")


def _items(node: ast.expr, names: _Names) -> Iterator[ast.expr]:
    """The tools that are handed over, through a variable that holds a list of them, too."""
    if isinstance(node, ast.List | ast.Tuple):
        for item in node.elts:
            yield from _items(item.value, names) if isinstance(item, ast.Starred) else [item]
    elif dotted(node) in names.lists:
        for item in names.lists[dotted(node)]:
            yield item.value if isinstance(item, ast.Starred) else item
    else:
        yield node


def _effect_of(call: ast.Call, names: _Names) -> str:
    first = call.args[0] if call.args else None
    said = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
    if isinstance(first, ast.List | ast.Tuple):
        said = " ".join(str(one.value) for one in first.elts if isinstance(one, ast.Constant))
    words = {
        word.arg: word.value.value
        if isinstance(word.value, ast.Constant) and isinstance(word.value.value, str)
        else None
        for word in call.keywords
        if word.arg is not None
    }
    return known.effect_of(names.dotted(call.func), first=said, words=words)
