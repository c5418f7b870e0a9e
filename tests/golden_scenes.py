"""Golden checkpoints: how they are written, and how today's code goes on from the bytes that yesterday's has written.

A *scene* is a query of the case table with what it is fed, played in an engine up to a *cut*; there the engine goes
through the same bytes that a store would have been given (sealed manifest and chunks). Whoever has only these bytes and
the rest of the input must emit what the uninterrupted run emits.

A store also keeps the query, as cloudpickled bytecode, which no other minor version of Python reads. A golden file must
outlive those, so it holds the rows without the plan: the query is built anew from the table, as an application
that declares its queries does. For the same reason checkpoints whose rows hold code (a selector's lambda inside a
saved query) are not taken. Rejected: comparing bytes (pickle writes references by object identity, so equal rows have
unequal bytes, in another process or version of Python); rows are compared by what they say.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any
from unittest.mock import patch

from every_case import CASES, Case

import reliable_rx as rx
from checkpoint.format.codec import decode, encode
from checkpoint.format.envelope import KeyRing
from checkpoint.sealed_log.generations import Chains, Seals, Tip, seal_generation
from checkpoint.store import Checkpoint
from hosting.engine.engine import QueryEngine
from hosting.engine.records import read_records
from hosting.engine.snapshot import Snapshot, load
from hosting.engine.turns import Answer, Dispose, Events, Output, Tick, Turn
from reliable_rx import operators as ops
from reliable_rx.event_time import event_time
from reliable_rx.reliable import DeadLetter
from reliable_rx.runtime.calling import Call
from reliable_rx.runtime.rows import Loader
from reliable_rx.testing import parse_marbles
from reliable_rx.testing.marbles import ERROR, NEXT, Timed
from reliable_rx.testing.oracle import SourceError

HORIZON_S = 40.0
SEALS = Seals(KeyRing(b"a key that is no secret, for tests"), "golden", "golden")
CODE = re.compile(rb"cloudpickle|_make_function")
UNSTABLE = re.compile(r"0x[0-9a-f]{6,}|<function|<lambda>")
HASH = re.compile(r"'[0-9a-f]{32,64}")
ADDRESS = re.compile(" at 0x[0-9a-f]+")
TOKEN = re.compile(r"'[0-9a-f]{16}'")
OURS = ("reliable_rx", "hosting", "checkpoint", "reactivex", "golden_scenes")
PLAIN = ("builtins", "collections", "datetime", "copyreg", "_operator", "functools")


# -- what can be played


@dataclass(frozen=True)
class Scene:
    """Queries and all that happens to them; turns that only a timer asks for come by themselves."""

    queries: Mapping[str, tuple[Any, Mapping[str, Any]]]
    sources: Mapping[str, Sequence[str]]
    inputs: Sequence[Turn]


def scene(name: str, fed: Sequence[str]) -> Scene:
    """Return the scene *name*: one of `SCENES`, or a case of the table that is fed marbles."""
    if name in SCENES:
        return SCENES[name]()
    case = CASES[name]
    sources = [f"s{number}" for number in range(case.sources)]
    query = case.build(ops, rx, *map(rx.source, sources))
    return Scene({"query": (query, {})}, dict.fromkeys(sources, ("0",)), list(turns(case, fed)))


def turns(case: Case, fed: Sequence[str]) -> Iterator[Events]:
    """Read marbles: letters stand for what the case is fed, ``#`` for the oracle's error."""
    yield from told_in_turn(streams_of(case, fed))


def told_in_turn(streams: Sequence[Sequence[Timed]]) -> Iterator[Events]:
    """Return the notifications of all streams as turns: by time, the first stream first."""
    merged = [(each.time_s, number, each) for number, stream in enumerate(streams) for each in stream]
    positions = [0] * len(streams)
    for time_s, number, each in sorted(merged, key=lambda item: item[:2]):
        values = [each.value] if each.kind == NEXT else []
        error = each.value if each.kind == ERROR else None
        yield Events(f"s{number}", "0", positions[number], values, time_s, ended=each.kind != NEXT, error=error)
        positions[number] += len(values)


def streams_of(case: Case, fed: Sequence[str]) -> list[list[Timed]]:
    letters = dict(zip("abcdefghi", case.alphabet, strict=False))
    return [parse_marbles(text, values=letters, error=SourceError("over")) for text in fed]


async def priced(value: int) -> int:
    """Stands for a call out of the query; the scene answers it."""
    return value


def stamp(event: Any) -> float:
    return float(event[0])


def key(event: Any) -> Any:
    return event[1]


def fed_in_order(*events: tuple[str, str, Any]) -> Iterator[Events]:
    """One event per second of (source, partition, value); the value None is the end."""
    positions: dict[tuple[str, str], int] = {}
    for second, (source, partition, value) in enumerate(events, 1):
        first = positions.get((source, partition), 0)
        values = [] if value is None else [value]
        positions[source, partition] = first + len(values)
        yield Events(source, partition, first, values, float(second), ended=value is None)


CALLS = [("s0", "0", n) for n in range(7)] + [("s0", "0", None)]
STAMPED = [
    ("s0", "a", (1.0, "x")), ("s0", "b", (4.0, "y")), ("s0", "a", (3.0, "y")), ("s0", "b", (9.0, "x")),
    ("s0", "a", (1.5, "x")), ("s0", "a", (8.0, "y")), ("s0", "b", (2.0, "y")), ("s0", "a", (12.0, "x")),
    ("s0", "b", None), ("s0", "a", (15.0, "y")), ("s0", "a", None),
]  # fmt: skip
TEXTS = [("s0", "0", text) for text in ("4", "one", "2", "two", "3", "1")] + [("s0", "0", None)]


def quiet(build: Callable[..., Any], *fed: str) -> Callable[[], Scene]:
    """A query over sources that are fed marbles of numbers, made anew for everybody who asks."""
    names = [f"s{number}" for number in range(len(fed))]
    streams = [parse_marbles(text, error=SourceError("over")) for text in fed]

    def made() -> Scene:
        query = build(*map(rx.source, names))
        return Scene({"query": (query, {})}, dict.fromkeys(names, ("0",)), list(told_in_turn(streams)))

    return made


def timer_of(value: int) -> Any:
    return rx.timer(value + 1.5)


def ticks_of(value: int) -> Any:
    return rx.interval(1.25).pipe(ops.take(value + 2))


def later(value: int) -> Any:
    return rx.timer(1.5).pipe(ops.map(partial(one_more, value)), ops.take_while(is_small))


def one_more(value: int, _: Any) -> int:
    return value + 1


def is_small(value: int) -> bool:
    return value < 4


def sixth(value: int) -> int:
    return 6 // value


def shared_by_those_who_wait(s: Any, t: Any) -> Any:
    shared = s.pipe(ops.publish_value(0), ops.ref_count())
    return shared.pipe(ops.merge(waiting_for(shared, t)))


def waiting_for(shared: Any, t: Any) -> Any:
    return t.pipe(ops.map(lambda _: shared.pipe(ops.take(2))), ops.merge(max_concurrent=1))


def read_again(s: Any, t: Any) -> Any:
    shared = s.pipe(ops.map(sixth), ops.take(2), ops.publish(), ops.ref_count())
    return shared.pipe(ops.catch(rx.never()), ops.merge(t.pipe(ops.flat_map(lambda _: shared))))


def read_within(s: Any, t: Any) -> Any:
    return s.pipe(ops.publish(lambda p: t.pipe(ops.flat_map(lambda _: p))))


LONG = range(20001)
MORE: dict[str, Callable[[], Scene]] = {
    "throttle_first, longer": quiet(lambda s: s.pipe(ops.throttle_first(2.5)), "-1-234-5678-9|"),
    "do_while of time": quiet(
        lambda s: rx.timer(1.5).pipe(ops.do_while(lambda _: True), ops.take(4), ops.merge(s)), "-1-2-3|"
    ),
    "from_long": quiet(lambda s: rx.from_iterable(LONG).pipe(ops.count(), ops.merge(s)), "-1-2|"),
    "expand in time": quiet(lambda s: s.pipe(ops.expand(later)), "-01--0|"),
    "delay_with_mapper, ended": quiet(lambda s: s.pipe(ops.delay_with_mapper(timer_of)), "-3-2-1|"),
    "exclusive, ended": quiet(lambda s: s.pipe(ops.map(ticks_of), ops.exclusive()), "-3-2-1|"),
    "flat_map_indexed, ended": quiet(lambda s: s.pipe(ops.flat_map_indexed(lambda x, i: ticks_of(x))), "-3-2-1|"),
    "merge_all of timers": quiet(lambda s: s.pipe(ops.map(timer_of), ops.merge(max_concurrent=1)), "-321|"),
    "concat_map, waiting": quiet(lambda s: s.pipe(ops.concat_map(timer_of)), "-321|"),
    "switch_latest of ticks": quiet(lambda s: s.pipe(ops.map(ticks_of), ops.switch_latest()), "-3-2-3|"),
    "switch_map_indexed": quiet(lambda s: s.pipe(ops.switch_map_indexed(lambda x, i: ticks_of(x))), "-3-2-3|"),
    "buffer_toggle, overlapping": quiet(
        lambda s, t: s.pipe(ops.buffer_toggle(t, lambda x: rx.timer(4.5))), "-1-2-3-4-5-6-7-8|", "1-2--3-4-5|"
    ),
    "timeout_with_mapper, late": quiet(
        lambda s, t: s.pipe(ops.timeout_with_mapper(rx.timer(2.5), timer_of, t)), "-0-----1-2-3|", "1-2-3-4-5-6-7|"
    ),
    "retry_with_backoff, failing fast": quiet(
        lambda s, _: s.pipe(ops.map(sixth), ops.retry_with_backoff(3, first_s=1.0, max_s=4.0, reset_after_s=4.0)),
        "-0-0--1-0-----0-1-2|",
        "-1|",
    ),
    "shared by those who wait": quiet(shared_by_those_who_wait, "----1-2-3-4-5|", "-1-2|"),
    "shared within by those who wait": quiet(
        lambda s, t: s.pipe(ops.publish(lambda p: waiting_for(p, t))), "----1-2-3-4-5|", "-1-2|"
    ),
    "shared, ended": quiet(read_again, "-1-2-3-1-2-3-1|", "----1--2-3|"),
    "shared, failed": quiet(read_again, "-1-0-3-1-2-3-1|", "----1--2-3|"),
    "shared within, ended": quiet(read_within, "-1|", "----1--2-3|"),
    "shared within, failed": quiet(read_within, "-1#", "----1--2-3|"),
}  # fmt: skip


SCENES: dict[str, Callable[[], Scene]] = {
    **MORE,
    "calls in order": lambda: Scene(
        {"query": (rx.source("s0").map_async(priced, concurrency=2), {})}, {"s0": ["0"]}, list(fed_in_order(*CALLS))
    ),
    "calls as answered": lambda: Scene(
        {"query": (rx.source("s0").map_async(priced, concurrency=3, ordered=False), {"policy": "dead_letter"})},
        {"s0": ["0"]},
        list(fed_in_order(*CALLS)),
    ),
    "event time": lambda: Scene(
        {
            "spans": (
                rx.source("s0").buffer_with_time(4.0),
                {"clock": event_time(stamp, lateness_s=2.0, late="side", idle_s=30.0)},
            ),
            "sums": (
                rx.source("s0").pipe(ops.where_key(key, "y"), ops.scan(lambda total, each: total + each[0], 0.0)),
                {"clock": event_time(stamp, lateness_s=5.0, late="drop", idle_s=2.5)},
            ),
        },
        {"s0": ["a", "b"]},
        list(fed_in_order(*STAMPED)),
    ),
    "queries of every status": lambda: Scene(
        {
            "fails": (rx.source("s0").map(int), {}),
            "skips": (rx.source("s0").map(int).scan(lambda total, each: total + each), {"policy": "skip"}),
            "buries": (rx.source("s0").map(int), {"policy": "dead_letter"}),
            "ends": (rx.source("s0").take(2), {}),
            "leaves": (rx.source("s0").count(), {}),
            "over": (rx.source("skips").pairwise(), {}),
        },
        {"s0": ["0"]},
        [*(given := list(fed_in_order(*TEXTS)))[:3], Dispose("leaves", 3.5), *given[3:]],
    ),
}
"""What is no case of one operator on virtual time: calls out, event time, and a host with several queries."""


# -- playing


class Run:
    """A scene in an engine; *record* says when which query emitted what."""

    def __init__(self, played: Scene) -> None:
        self.scene = played
        self.record: list[str] = []
        self.engine = QueryEngine()
        for source, partitions in played.sources.items():
            self.engine.declare(source, partitions)

    def begin(self, cut: int) -> Run:
        """Create the queries and take the first *cut* inputs."""
        for name, (query, options) in self.scene.queries.items():
            self.take(self.engine.creation(name, query, time=0.0, **options))
        for turn in self.scene.inputs[:cut]:
            self.step(turn)
        return self

    def resume(self, blobs: Sequence[bytes]) -> Loader:
        """Begin with what *blobs* hold; the queries are today's, and keep what the bytes say of them."""
        for name, (query, options) in self.scene.queries.items():
            plan = self.engine.creation(name, query, time=0.0, sources_known=False, **options).code
            for stream in (name, f"{name}.dead_letters", f"{name}.late"):
                self.engine.plans.by_id[plan_name(stream)] = plan if stream == name else self.letters()
        head, chunks = unsealed(blobs)
        loader = load(self.engine, chunks, head["engine"])
        for error in self.engine.suspended.spoilt.values():
            raise error
        return loader

    def letters(self) -> Any:
        return self.engine.creation("letters", rx.never(), time=0.0).code

    def finish(self, cut: int) -> list[str]:
        """Take the inputs from *cut* on and return what was emitted."""
        self.record = []
        for turn in self.scene.inputs[cut:]:
            self.step(turn)
        self.tick(max((turn.time for turn in self.scene.inputs), default=0.0) + HORIZON_S, inclusive=True)
        while self.engine.calls.askers:
            self.answer(next(iter(self.engine.calls.askers)))
        return self.record

    def step(self, turn: Turn) -> None:
        self.tick(turn.time, inclusive=False)
        self.take(turn)
        if isinstance(turn, Events) and turn.first % 3 == 0 and len(self.engine.calls.askers) > 1:
            self.answer(next(reversed(self.engine.calls.askers)))

    def tick(self, time: float, *, inclusive: bool) -> None:
        while (due := self.engine.timers.next_due()) is not None and (due < time or (inclusive and due == time)):
            self.take(Tick(due))

    def answer(self, call: Call) -> None:
        """Let the service outside answer a call with what it was asked, as a text."""
        instance, node = self.engine.calls.askers[call]
        value = node.op.element(instance.states[node.slot], call)  # type: ignore[attr-defined]
        self.take(Answer(call, encode((f"answer to {value}", None)), self.engine.clock))

    def take(self, turn: Turn) -> None:
        for out in self.engine.take(turn):
            self.record += told(self.engine.clock, out)

    def save(self) -> list[bytes]:
        """Return the sealed bytes of a full checkpoint: its manifest, then its chunks."""
        self.engine.plans.ids = {each.plan: plan_name(name) for name, each in self.engine.standing.items()}
        snapshot = Snapshot(self.engine, full=True)
        snapshot.plans = {}
        while not snapshot.write_some(1000):
            pass
        meta = encode({"engine": snapshot.header})
        checkpoint = Checkpoint(1, "full", self.engine.number, meta, snapshot.chunks(), snapshot.rows)
        sealed = seal_generation(SEALS, checkpoint, Tip(), 0.0)
        return [sealed.blob, *sealed.chunks]


def plan_name(query: str) -> str:
    return f"the plan of {query}"


def told(time_s: float, out: Output) -> Iterator[str]:
    """Write an output as text, one line a notification: time, stream, id, what."""
    for place, value in enumerate(out.values):
        yield f"{time_s:g} {out.name} {out.first + place}: {canonical(value)}"
    if out.ended:
        end = "|" if out.error is None else f"# {type(out.error).__name__}: {out.error}"
        yield f"{time_s:g} {out.name} {out.next - 1}: {end}"


def unsealed(blobs: Sequence[bytes]) -> tuple[dict[str, Any], Sequence[bytes]]:
    """Open what `Run.save` has returned, as a store does."""
    newest = Chains(SEALS, {1: blobs[0]}, lambda _: blobs[1:]).newest(strict=True)
    assert newest is not None
    return decode(newest[0].meta), newest[0].chunks


@contextmanager
def counted_tokens() -> Iterator[None]:
    """Name shared parts by a count and not at random, so that the same is written twice."""
    numbers = count(1)
    with patch("reliable_rx.runtime.hub.token_hex", lambda size: f"{next(numbers):0{2 * size}x}"):
        yield


# -- reading


def rows_of(blobs: Sequence[bytes]) -> list[str]:
    """Say what a checkpoint holds, one line a row."""
    head, chunks = unsealed(blobs)
    rows = read_records(chunks, Loader({}))
    lines = [f"{canonical(name)}: {canonical(row)}" for name, row in sorted(rows.items(), key=lambda r: repr(r[0]))]
    return [f"header: {canonical(head['engine'])}", *lines]


def canonical(value: Any) -> str:
    """Write *value* as a text that equal values share, whatever the order in their sets and the names of their hubs."""
    if isinstance(value, DeadLetter):
        text = repr(replace(value, traceback="a trace"))
    elif isinstance(value, str) and value.startswith("Traceback (most recent call last)"):
        text = "'a trace'"  # names folders and lines of the code of today
    elif isinstance(value, (set, frozenset)):
        text = "{" + ", ".join(sorted(map(canonical, value))) + "}"
    elif type(value) is tuple:
        text = "(" + ", ".join(map(canonical, value)) + ")"
    elif type(value) is list:
        text = "[" + ", ".join(map(canonical, value)) + "]"
    elif type(value) is dict:
        text = "{" + ", ".join(f"{canonical(key)}: {canonical(each)}" for key, each in value.items()) + "}"
    else:
        text = repr(value)
    return ADDRESS.sub("", HASH.sub("'a hash of code", TOKEN.sub("'token'", text)))


def is_lasting(blobs: Sequence[bytes], lines: Sequence[str]) -> bool:
    """Whether the bytes hold no code and name nothing but what any process has."""
    if any(CODE.search(blob) for blob in blobs) or any(UNSTABLE.search(line) for line in lines):
        return False
    return all(name.split(".")[0] in (*OURS, *PLAIN) for name in modules_named(blobs))


def modules_named(blobs: Sequence[bytes]) -> set[str]:
    """Return the modules whose names a reader of the bytes must know."""
    found: set[str] = set()
    head, chunks = unsealed(blobs)

    def read() -> None:
        for data in (encode(head), *chunks):
            stream = io.BytesIO(data)
            while stream.tell() < len(data):
                Naming(stream, found).load()

    Loader({}).reading(read)
    return found


class Naming(pickle.Unpickler):
    """Reads bytes and notes the modules that it needs."""

    def __init__(self, stream: io.BytesIO, found: set[str]) -> None:
        super().__init__(stream)
        self.found = found

    def find_class(self, module: str, name: str) -> Any:
        self.found.add(module)
        return super().find_class(module, name)


# -- does it matter?


def states(loader: Loader, kind: type[Any]) -> Iterator[Any]:
    """Yield every state of an operator of this kind that has been loaded."""
    for instance in loader.instances.values():
        for node in instance.plan.slots:
            if type(node.op) is kind and instance.states[node.slot] is not None:
                yield node.op, instance.states[node.slot]


def matters(played: Scene, blobs: Sequence[bytes], cut: int, after: Sequence[str], kind: type[Any], field: str) -> bool:
    """Whether what comes after is another when *field* is forgotten: when it is what it was at the beginning."""
    run = Run(played)
    found = list(states(run.resume(blobs), kind))
    changed = False
    for op, state in found:
        fresh = getattr(op.initial(), field)
        if canonical(fresh) != canonical(getattr(state, field)):
            setattr(state, field, fresh)
            changed = True
    if not changed:
        return False
    try:
        return run.finish(cut) != list(after)
    except Exception:
        return True
