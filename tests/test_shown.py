"""Values that are small and would be shown in 2 ** 40 characters: shown in bounded time and length, or refused."""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import logging
import time
import types
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from lanes import crossed, every, every_of

import reliable_rx as rx
from checkpoint import MemoryStore
from checkpoint.format.stored_errors import from_data, lasting, plain_trace, to_data, trace_of
from hosting import CallbackSink, ListSource, QueryEvaluator
from hosting.bulk.columns import shown as column_shown
from hosting.cli.inspect_store import shown as inspected
from hosting.cli.wording import LINE_CHARACTERS_MAX, in_json
from hosting.sinks import JsonLinesSink, SqliteTableSink, plain, to_plain
from hosting.sinks.text import error_text
from hosting.sinks.text import shown as sink_shown
from hosting.sources.decoding import shown as decoding_shown
from reliable_rx.errors import ValueRefused, described, text_of
from reliable_rx.names import check_name
from reliable_rx.operators.contract.arguments import check_function, check_number, cut
from reliable_rx.shown import LIGHT_MAX, bounded_repr, is_light
from reliable_rx.testing.hostile import ERRORS, VALUES, Hostile

SOURCE: Any = rx.source("n")
LEVELS = 40
SECONDS_MAX = 20.0
"""Far more than any of it takes, and far less than 2 ** 40 steps."""


@dataclasses.dataclass(unsafe_hash=True)
class Pair:
    a: Any
    b: Any


class Named(NamedTuple):
    a: Any
    b: Any


class Told:
    """One that shows what it holds by itself."""

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    def __repr__(self) -> str:
        return f"Told({self.a!r}, {self.b!r})"


class Slotted(Told):
    __slots__ = ("a", "b")


class Row(list[Any]):
    pass


class Saying(Exception):
    """One that says what it holds by itself."""

    def __str__(self) -> str:
        return f"saying {self.args!r}"


KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "list": lambda a, b: [a, b],
    "tuple": lambda a, b: (a, b),
    "dict": lambda a, b: {"a": a, "b": b},
    "key": lambda a, b: {(a, b): 1, (b, 1): a} if isinstance(a, str) else {"a": a, "b": [b]},
    "ordered": lambda a, b: collections.OrderedDict(a=a, b=b),
    "default": lambda a, b: collections.defaultdict(list, a=a, b=b),
    "deque": lambda a, b: collections.deque([a, b]),
    "row": lambda a, b: Row([a, b]),
    "pair": Pair,
    "named": Named,
    "told": Told,
    "slotted": Slotted,
    "namespace": lambda a, b: types.SimpleNamespace(a=a, b=b),
    "proxy": lambda a, b: types.MappingProxyType({"a": a, "b": b}),
    "values": lambda a, b: {"a": a, "b": b}.values(),
    "items": lambda a, b: {"a": a, "b": b}.items(),
    "part": lambda a, b: functools.partial(print, a, b=b),
    "method": lambda a, b: Told(a, b).__repr__,
    "error": ValueError,
    "saying": Saying,
    "key error": lambda a, b: KeyError([a, b]),
    "os error": lambda a, b: OSError(1, a, b),
    "group": lambda a, b: ExceptionGroup("g", [ValueError(a), ValueError(b)]),
}


def twice(kind: str, levels: int = LEVELS) -> Any:
    value: Any = "a"
    for _ in range(levels):
        value = KINDS[kind](value, value)
    return value


WIDE: dict[str, Callable[[], Any]] = {
    "long list": lambda: [0] * 10**7,
    "wide": lambda: [[0] * 10**5] * 10**5,
    "long text": lambda: "a" * 10**8,
    "many long texts": lambda: ["a" * 10**7] * 10**5,
    "long bytes": lambda: b"a" * 10**8,
    "long number": lambda: 1 << 10**7,
    "long numbers": lambda: [1 << 10**5] * 2_000,
    "itself": lambda: itself(),
}
HUGE: dict[str, Callable[[], Any]] = {**{kind: functools.partial(twice, kind) for kind in KINDS}, **WIDE}


def itself() -> Any:
    value: list[Any] = [twice("list")]
    value.append(value)
    return value


SHOWING: dict[str, tuple[int, Callable[[Any], str]]] = {
    "cut": (60, cut),
    "sinks": (1000, sink_shown),
    "sinks, short": (10, lambda value: sink_shown(value, most=10)),
    "columns": (60, column_shown),
    "inspect": (1000, inspected),
    "tail": (LINE_CHARACTERS_MAX + 2, in_json),
    "decoding": (1000, decoding_shown),
    "refused name": (1000, lambda value: said(lambda: check_name("query", value))),
    "refused function": (1000, lambda value: said(lambda: check_function("f", Hidden(value)))),
    "refused number": (1000, lambda value: said(lambda: check_number("n", Hidden(value)))),
    "refused query": (1000, lambda value: said(lambda: rx.merge(Hidden(value)))),  # type: ignore[arg-type]
    "explained": (10_000, lambda value: SOURCE.start_with(value).explain()),
    "shown query": (10_000, lambda value: repr(rx.of(value))),
    "an error's text": (4100, lambda value: text_of(ValueError(value, value))),
    "an error of one": (4100, lambda value: described(KeyError([value]))),
    "an error's sentence": (10_100, lambda value: error_text(ValueError(value, value))),
    "a traceback": (22_000, lambda value: trace_of(raised(ValueError(value, value)))),
    "a plain traceback": (22_000, lambda value: plain_trace(raised(ValueError([value])))),
    "a chain": (22_000, lambda value: trace_of(led(ValueError([value])))),
    "a lasting error": (22_000, lambda value: trace_of(lasting(ValueError([value])))),
    "a stored error": (22_000, lambda value: trace_of(from_data(*to_data(ValueError([value]))))),
}


class Hidden:
    """What is no number, function or query, and shows what it holds."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Hidden({self.value!r})"


def said(refused: Callable[[], Any]) -> str:
    with pytest.raises((TypeError, ValueError)) as found:
        refused()
    return str(found.value)


def raised(error: Exception) -> Exception:
    with suppress(type(error)):
        raise error
    return error


def led(error: Exception) -> Exception:
    try:
        try:
            raise error
        except ValueError:
            raise KeyError("behind") from error
    except KeyError as found:
        return found


@pytest.mark.parametrize("what, where", every_of(23, product(HUGE, SHOWING)))
def test_a_value_is_shown_in_bounded_time_and_length(what: str, where: str) -> None:
    """Wherever one is shown: in errors, refusals, dead letters, what `inspect` and `tail` write, and a query's plan."""
    characters_max, show = SHOWING[where]
    if isinstance((value := HUGE[what]()), str) and where == "refused name":
        pytest.skip("it is a name, only too long")
    began = time.process_time()
    text = show(value)
    assert len(text) <= characters_max
    assert time.process_time() - began < SECONDS_MAX


@pytest.mark.parametrize("hostile", every(3, [*VALUES, *ERRORS], commits=1), ids=str)
def test_what_is_light_is_shown_as_python_does(hostile: Hostile) -> None:
    """Ordinary values, and hostile ones, read as with `repr`; what a `__repr__` raises is raised."""
    value = hostile.make()
    if not is_light(value):
        return
    for each in (value, [value], {"a": value}, Pair(value, 1)):
        assert outcome(repr, each) == outcome(lambda one: bounded_repr(one, 60), each)


def outcome(function: Callable[[Any], Any], value: Any) -> Any:
    try:
        return function(value)
    except BaseException as error:
        return type(error)


def test_a_hostile_value_is_measured_without_its_help() -> None:
    """To find out how much a value holds calls nothing of the user's."""
    for hostile in (*VALUES, *ERRORS):
        is_light(hostile.make(), 50)
        is_light([hostile.make()] * 10, 50)


@pytest.mark.parametrize("kind", ["list", "tuple", "dict", "ordered", "deque", "pair", "named"])
def test_a_file_of_lines_refuses_what_it_could_not_hold(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the value's fault, which is named; what is before and behind it is written."""
    monkeypatch.setattr(plain, "ITEMS_MAX", 100_000)
    for name, encode in {"ours": to_plain, "theirs": lambda value: value}.items():
        if name == "theirs" and kind in ("deque", "pair"):
            continue  # which JSON refuses by itself
        sink = JsonLinesSink(tmp_path / name, encode=encode)
        sink.open("q")
        with pytest.raises(ValueRefused, match=r"cannot be written to .* has over") as caught:
            sink.write(0, ["before", twice(kind), "behind"])
        assert caught.value.n == 1
        sink.write(0, ["before"])
        sink.skip(1, 2, described(caught.value), rx.DeadLetter("q", "", 1, twice(kind), "why", ""))
        sink.write(2, ["behind"])
        sink.close()
        assert [json.loads(line)["id"] for line in (tmp_path / name).read_text().splitlines()] == [0, 1, 2]


def test_a_table_refuses_what_it_could_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "ITEMS_MAX", 100_000)
    sink = SqliteTableSink(tmp_path / "db", "t")
    sink.open("q")
    with pytest.raises(ValueRefused, match="has over") as caught:
        sink.write(0, [{"a": 1}, {"a": twice("list")}])
    assert caught.value.n == 1
    sink.close()


def failing(value: Any) -> Any:
    raise ValueError(value, [value])


def chained(value: Any) -> Any:
    try:
        raise KeyError(value)
    except KeyError as error:
        raise ValueError([value]) from error


@pytest.mark.parametrize(
    "function, policy, kind",
    crossed([failing, chained], ["fail", "skip", "dead_letter"], ["list", "dict", "pair", "told", "saying"]),
)
def test_a_query_that_fails_at_one_is_told(
    kind: str,
    policy: Any,
    function: Callable[[Any], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its error, incident, log and dead letter are bounded, and so is what a sink of dead letters does with it."""
    monkeypatch.setattr(plain, "ITEMS_MAX", 100_000)
    monkeypatch.setattr("checkpoint.format.plain._PARTS_MAX", 20_000)
    began = time.process_time()
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([twice(kind)]))
        evaluator.create("q", rx.source("n").map(function), policy=policy)
        if policy == "dead_letter":
            evaluator.sink("q.dead_letters", JsonLinesSink(tmp_path / "letters"), on_error="dead_letter")
            evaluator.sink("q.dead_letters", CallbackSink(lambda n, letter: failing(letter)))
        evaluator.run()
        told = evaluator.incidents.open()
        figures = evaluator.query("q")
    assert told or policy == "dead_letter"
    assert all(len(each.message) < 10_000 and len(each.trace) < 30_000 for each in told)
    assert len(figures.error) < 10_000 and len(figures.trace) < 30_000
    assert all(len(each.getMessage()) < 50_000 for each in caplog.records if each.levelno >= logging.INFO)
    assert time.process_time() - began < SECONDS_MAX


@dataclasses.dataclass
class Wide:
    """What is too large for its `repr`, by one of its fields."""

    name: str
    held: Any


def test_a_dataclass_that_is_too_large_is_shown_by_its_fields() -> None:
    """Its name and the names of its fields stand there, as in its `repr`."""
    assert bounded_repr(Wide("here", "x" * LIGHT_MAX), 40).startswith("Wide(name='here', held='xxx")


def test_what_just_fits_is_shown_whole() -> None:
    """A text is cut only where it has no room, and the mark of the cut is one of its characters."""
    deep: Any = "x" * LIGHT_MAX
    for _ in range(8):
        deep = [deep]
    assert bounded_repr(deep, 14) == "[[[[[[…]]]]]]"
    assert bounded_repr(deep, 13) == "[[[[[[…]]]]]…"
