"""What the code itself says about each operator: the table at the top of the page of operators.

Every case of the tests' table is built, with a note of which operator puts which nodes into the plan; then the facts
are read off these operators' classes. So a composite lists its parts, an operator that chooses by its arguments lists
all it may become, and nobody keeps a list by hand. Rejected: declaring the facts again beside each operator, which
would be a second docstring without a test.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import reliable_rx as rx
from reliable_rx import creation, operators
from reliable_rx.creation import pacing
from reliable_rx.errors import QueryRefused
from reliable_rx.operators.contract.operator import Linear, Operator, Stage
from reliable_rx.operators.contract.parameters import state_fields
from reliable_rx.query.query import LEAVES, Node, Query, walk

TESTS = Path(__file__).parent.parent / "tests"
HEAD = "| name | kind | what is saved | how it grows, and the limit | clock | hosted |\n|---|---|---|---|---|---|"


# Operators that drop the inner sequence they read before they read another; tests/test_operators_bounds.py shows it.
ONE_AT_A_TIME = frozenset((
    "BufferWhen", "ConcatMap", "Exclusive", "SwitchLatest", "SwitchMap", "SwitchMapIndexed", "ThrottleWithMapper",
    "TimeoutWithMapper", "WindowWhen",
))  # fmt: skip


@dataclass
class Facts:
    """What an operator or creation function has put into plans: nodes by class, and what of it a host refuses."""

    nodes: dict[type[Operator], list[Node]] = field(default_factory=dict)
    refusals: dict[str, None] = field(default_factory=dict)

    def note(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self.note_one(node)
            for part in vars(node.op).values():  # an operator as a parameter: the time to live of a group
                if isinstance(part, Operator):
                    self.note_one(Node(part, node.inputs))

    def note_one(self, node: Node) -> None:
        reason = "" if getattr(node.op, "scheduler", None) is not None else node.op.refusal() or ""
        if not reason:
            self.nodes.setdefault(type(node.op), []).append(node)
        elif re.search("[;:] ", reason):  # without a way out it is an error in the arguments
            self.refusals[reason] = None


class Noting:
    """`reliable_rx.operators` or `reliable_rx`, where every call is noted in *facts*."""

    def __init__(self, module: Any, names: Iterable[str], facts: dict[str, Facts]) -> None:
        self.module, self.names, self.facts = module, frozenset(names), facts

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.module, name)
        return self.noted(name, function) if name in self.names else function

    def noted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **options: Any) -> Any:
            made = function(*args, **options)
            given = list(queries((args, options)))
            if not isinstance(made, Query) and callable(made):  # an operator, or what from_callback returns
                return self.noted_result(name, made, given)
            self.facts.setdefault(name, Facts()).note(added(made, given))
            return made

        return called

    def noted_result(self, name: str, made: Callable[..., Any], given: list[Query[Any]]) -> Callable[..., Any]:
        def applied(*sources: Any) -> Any:
            facts = self.facts.setdefault(name, Facts())
            try:
                result = made(*sources)
            except QueryRefused as refused:
                facts.refusals[str(refused)] = None
                return None
            facts.note(added(result, [*given, *queries(sources)]))
            return result

        return applied


def queries(value: Any) -> Iterator[Query[Any]]:
    """Yield the queries in arguments, however they are packed."""
    if isinstance(value, Query):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from queries(each)
    elif isinstance(value, dict):
        yield from queries(list(value.values()))


def added(made: Any, given: list[Query[Any]]) -> list[Node]:
    """Return the nodes of *made* that were not there before."""
    before = {id(node) for query in given for node in walk(query.node)}
    nodes = [node for query in queries(made) for node in walk(query.node)]
    return [node for node in nodes if id(node) not in before and not isinstance(node.op, LEAVES)]


async def answer(value: Any) -> Any:
    return value


@cache
def all_facts() -> tuple[dict[str, Facts], dict[str, Facts]]:
    """Return the facts about operators and about creation functions, by name."""
    sys.path.insert(0, str(TESTS))
    for path in TESTS.glob("operator_cases*.py"):
        importlib.import_module(path.stem)
    table = sys.modules["operator_cases"].CASES
    found: tuple[dict[str, Facts], dict[str, Facts]] = ({}, {})
    ops = Noting(operators, operators.__all__, found[0])
    begin = Noting(rx, creation.__all__, found[1])
    for _, case in sorted(table.items()):  # in whatever order they were imported
        case.build(ops, begin, *map(rx.source, "abcd"[: case.sources]))
    begin.from_callback(lambda number, callback: callback(number))(1)
    begin.to_async(len)("")
    ops.as_observable()(rx.source("a"))
    ops.to_future()(rx.source("name"))
    ops.map_async(answer)(rx.source("a"))
    return found


# -- what a class says


@cache
def code(kind: type[Any]) -> str:
    """Return the text of an operator's steps, with the functions of its modules that they call."""
    kinds = [each for each in kind.__mro__ if issubclass(each, Operator) and each not in (Operator, Linear, Stage)]
    texts, waiting, seen = [], [(inspect.getsource(each), each.__module__) for each in kinds], set[str]()
    while waiting:
        text, module = waiting.pop()
        texts.append(text)
        for name in set(re.findall(r"(?<![\w.])([a-z_]\w+)\(", text)) - seen:
            function = vars(sys.modules[module]).get(name)
            if isinstance(function, FunctionType) and function.__module__ != pacing.__name__:
                seen.add(name)
                waiting.append((inspect.getsource(function), function.__module__))
    return "\n".join(texts)


def has_timers(kind: type[Operator]) -> bool:
    return ".schedule(" in code(kind)


def reads_clock(kind: type[Operator]) -> bool:
    return re.search(r"cx\.(now|horizon)\b", code(kind)) is not None


def reads_inner(kind: type[Operator]) -> bool:
    return re.search(r"cx\.(open|prepare)\(", code(kind)) is not None


def growth(kind: type[Operator]) -> Iterator[str]:
    """Yield what of an operator grows, and the limit for it."""
    text = code(kind)
    for name, limit in kind.grows.items():
        yield f"`{name}`: `{limit}`"
    if "items" in state_fields(kind) and not kind.grows and "check_list(" not in text:
        yield "`items`: by its parameter"
    if "check_queue(" in text:
        yield "what waits: `queue_items_max`"
    if "check_list(" in text:
        yield "lists: `list_items_max`"
    for limit in re.findall(r"plan\.limits\.(distinct\w+_max)", text):
        yield f"keys: `{limit}`"
    if kind.yields_inner and issubclass(kind, Stage):
        yield f"rows: `{kind.inner_limit}`"
    if reads_inner(kind):
        one = kind.__name__ in ONE_AT_A_TIME or re.search(r"cx\.open\([\"0]", text)
        yield "one row" if one else "rows of what it reads: `inner_max`"
    if getattr(kind, "resubscribes", False) and not kind.is_hub:
        yield "rounds in no time: `actions_max`"


def hub_growth(nodes: list[Node]) -> Iterator[str]:
    """Yield what of a shared part grows; not every kind remembers elements."""
    if any(node.op.memory == "replay" for node in nodes):  # type: ignore[attr-defined]
        yield "`values`: by its parameters, `queue_items_max`"
    if any(hasattr(node.op, "mapper") for node in nodes):
        yield "one row"


# -- the table


def row(shown: str, name: str, facts: Facts, *, begins: bool) -> str:
    """Return the line of the table."""
    grows = dict.fromkeys(each for kind, nodes in facts.nodes.items() for each in grows_by(kind, nodes))
    cells = [shown, kind_of(facts, begins), saved(name, facts), "; ".join(grows), clock(facts), hosted(facts)]
    return "| " + " | ".join(cell.replace("|", "\\|") or "–" for cell in cells) + " |"


def grows_by(kind: type[Operator], nodes: list[Node]) -> Iterator[str]:
    return hub_growth(nodes) if kind.is_hub else growth(kind)


def kind_of(facts: Facts, begins: bool) -> str:
    """Say what an operator deals with."""
    if facts.refusals and not facts.nodes:
        return "leaves the host"
    words = list(dict.fromkeys(word for kind, nodes in facts.nodes.items() for word in words_of(kind, nodes)))
    if begins or len(words) > 1:
        words = [word for word in words if word not in ("one input", "no input") or not begins] or ["no input"]
    words = [word for word in words if word != "no input" or len(words) == 1]
    return ", ".join(words) or "one input"


def words_of(kind: type[Operator], nodes: list[Node]) -> Iterator[str]:
    """Yield the words for one of the operators that it is made of."""
    inputs = max(len(node.inputs) for node in nodes)
    special = []
    if has_clock(kind, nodes):
        special.append("time")
    if kind.is_hub:
        special.append("sharing")
    elif kind.yields_inner or reads_inner(kind):
        special.append("inner sequences")
    if kind.calls_out:
        special.append("asks outside")
    if inputs > 1:
        special.append("several inputs")
    yield from special or [("no input", "one input")[inputs]]


def has_clock(kind: type[Operator], nodes: list[Node]) -> bool:
    if kind.is_hub:
        return any(node.op.memory == "replay" for node in nodes)  # type: ignore[attr-defined]
    return has_timers(kind) or reads_clock(kind)


def saved(name: str, facts: Facts) -> str:
    """Name the fields of the State, with the part's name where an operator is made of others."""
    keeping = [kind for kind in facts.nodes if state_fields(kind)]
    if [kind.name for kind in keeping] == [name]:
        return fields_of(keeping[0])
    return "; ".join(dict.fromkeys(f"*{kind.name}*: {fields_of(kind)}" for kind in keeping))


def fields_of(kind: type[Operator]) -> str:
    return ", ".join(f"`{each}`" for each in state_fields(kind))


def clock(facts: Facts) -> str:
    kinds = [kind for kind, nodes in facts.nodes.items() if has_clock(kind, nodes)]
    return "timers" if any(map(has_timers, kinds)) else "is read" if kinds else ""


def hosted(facts: Facts) -> str:
    """Say whether a host takes it, or what to do instead."""
    if not facts.refusals:
        return "yes"
    reason = re.sub(r"^\w+ has no state that could be saved; ", "", next(iter(facts.refusals)))
    return f"yes, but: {reason}" if facts.nodes else f"no: {reason}"
