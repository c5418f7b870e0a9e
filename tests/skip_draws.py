"""Draws of nested queries in which several functions raise, for what the policy ``skip`` promises of them.

A part is a text that runs on a host and on plain `reactivex`. There what the host has skipped is filtered out before
the function, and what it has not skipped is raised, so that both must be equal to the last notification. Every value
has the number of its event: what pairs equal numbers while nothing raises has to pair none but equal ones. Rejected: to
feed `reactivex` with the events at which nothing raises, since what the other branches of a query make of an event
stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import strategies as st

from hosting.engine.engine import QueryEngine
from reliable_rx.errors import QueryRefused
from reliable_rx.testing.marbles import COMPLETED, ERROR, NEXT, Timed
from reliable_rx.testing.oracle import compare
from reliable_rx.testing.queries import Script, StoredRun
from reliable_rx.testing.virtual_time import run_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import DrawFn

Value = tuple[Any, int]
"""The number of an event, or of two that were paired, and what has been made of it."""
START: Value = (-1, 0)
"""A value that is there at no event: at one that no function takes then a query fails."""
Place = tuple[str, Any]
Key = tuple[str, Any, int]
"""Where a function raises, at which event, and for the how many-th time."""


class Spoilt(Exception):
    """What the functions of a drawn query raise."""

    def __init__(self, path: str, event: Any) -> None:
        super().__init__(path, event)
        self.place = path, event


@dataclass
class Notes:
    """What a run on plain `reactivex` is told of the host's skips, and what it has found."""

    skips: dict[Key, bool]
    quiet: bool = False
    """Whether nothing is left out, and only raised what the host has let raise."""
    met: Counter[Place] = field(default_factory=Counter)
    unequal: set[str] = field(default_factory=set)
    mixed: set[str] = field(default_factory=set)
    """Where what is paired is of several sources, or has been paired before."""
    caught: list[Any] = field(default_factory=list)

    def lets_pass(self, path: str, number: int, value: Value) -> bool:
        """Whether the function at *path* takes *value*, which the host has not skipped; otherwise it may raise."""
        if not is_bad(number, value):
            return True
        place = path, value[0]
        self.met[place] += 1
        if not self.skips.get((*place, self.met[place]), self.quiet):
            raise Spoilt(*place)
        return self.quiet


class Keyed(NamedTuple):
    """What has a key and is no group."""

    key: int


@dataclass
class Scope:
    """What is around a part: the sequences that it may read, the key of its group, and where it is."""

    ops: Any
    rx: Any
    notes: Notes | None
    read: tuple[Any, ...]
    group: Any
    """What has the key: a group, or what stands for an element."""
    path: str = ""

    def make(self, part: Part, number: int, *more: Any, group: Any = None) -> Any:
        """Make *part*, which stands at place *number* of the one around it and may read *more*."""
        inside = Scope(
            self.ops,
            self.rx,
            self.notes,
            (*self.read, *more),
            self.group if group is None else group,
            f"{self.path}/{part.name}.{number}",
        )
        return MAKES[part.name](inside, part)


@dataclass(frozen=True)
class Part:
    """A sequence by the name of what makes it, a number that says how, and the parts that it is made of."""

    name: str
    number: int = 0
    parts: tuple[Part, ...] = ()

    def __repr__(self) -> str:
        inside = f"({', '.join(map(repr, self.parts))})" if self.parts else ""
        return f"{self.name}{self.number}{inside}"

    def __call__(self, ops: Any, rx: Any, *sources: Any) -> Any:
        return Scope(ops, rx, None, sources, Keyed(0)).make(self, 0)

    def walk(self) -> Iterator[Part]:
        yield self
        for each in self.parts:
            yield from each.walk()


def is_bad(number: int, value: Value) -> bool:
    event = value[0]
    return isinstance(event, int) and event >= 0 and event % 30 % 5 == number % 5


def raising(number: int, path: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function*, which raises where its last argument is bad."""

    def call(*args: Any) -> Any:
        if is_bad(number, args[-1]):
            raise Spoilt(path, args[-1][0])
        return function(*args)

    return call


def guarded(scope: Scope, number: int, query: Any, function: Callable[..., Any]) -> tuple[Any, Callable[..., Any]]:
    """Return *query* and a *function* behind it that raises, on plain `reactivex` with what stands for it."""
    notes, path = scope.notes, scope.path
    if notes is None:
        return query, raising(number, path, function)
    return query.pipe(scope.ops.filter(lambda value: notes.lets_pass(path, number, value))), function


def joined(a: Value, b: Value) -> Value:
    return a[0], (a[1] * 3 + b[1] + 1) % 97


def paired(scope: Scope) -> Callable[[Value, Value], Value]:
    """Return what makes one value of two that an operator has paired by position."""
    notes, path = scope.notes, scope.path

    def pair(a: Value, b: Value) -> Value:
        if notes is not None and a[0] != b[0]:
            (notes.unequal if of_one_source(a, b) else notes.mixed).add(path)
        return (a[0] if a[0] == b[0] else f"{a[0]} with {b[0]}"), (a[1] * 5 + b[1] + 2) % 97

    return pair


def of_one_source(a: Value, b: Value) -> bool:
    return all(isinstance(each[0], int) for each in (a, b)) and a[0] // 30 == b[0] // 30


def key_of(value: Value) -> int:
    return len(value[0]) % 3 if isinstance(value[0], str) else int(value[0]) % 3


RAISE: Sequence[Callable[[Any, Any, Callable[..., Any]], Any]] = (
    lambda ops, rx, guard: (lambda q, f: q.pipe(ops.map(f)))(*guard(lambda v: (v[0], v[1] + 1))),
    lambda ops, rx, guard: (lambda q, f: q.pipe(ops.filter(f)))(*guard(lambda v: True)),
    lambda ops, rx, guard: (lambda q, f: q.pipe(ops.scan(f, START)))(*guard(lambda t, v: (v[0], (t[1] + v[1]) % 97))),
    lambda ops, rx, guard: (lambda q, f: q.pipe(ops.do_action(f)))(*guard(lambda v: None)),
    lambda ops, rx, guard: (lambda q, f: q.pipe(ops.flat_map(f)))(*guard(lambda v: rx.of(v))),
    lambda ops, rx, guard: (lambda q, f: q.pipe(ops.take_while(f)))(*guard(lambda v: True)),
    lambda ops, rx, guard: (lambda q, f: q.pipe(ops.distinct(f)))(*guard(lambda v: v[0])),
    lambda ops, rx, guard: (lambda q, f: q.pipe(ops.flat_map(f)))(*guard(lambda v: [v])),
)
SHARE: Sequence[Callable[[Any, Any], Any]] = (
    lambda ops, q: q.pipe(ops.share()),
    lambda ops, q: q.pipe(ops.publish(), ops.ref_count()),
    lambda ops, q: q.pipe(ops.replay(1), ops.ref_count()),
    lambda ops, q: q.pipe(ops.publish_value(START), ops.ref_count()),
    lambda ops, q: q,
)
PUBLISH: Sequence[Callable[[Any, Any, Any], Any]] = (
    lambda ops, q, mapper: q.pipe(ops.publish(mapper)),
    lambda ops, q, mapper: q.pipe(ops.replay(1, mapper=mapper)),
    lambda ops, q, mapper: q.pipe(ops.publish_value(START, mapper)),
)
FOR_EACH: Sequence[str] = ("flat_map", "switch_map", "concat_map", "flat_map_latest")
TAKE: Sequence[Callable[[Any, Any], Any]] = (
    lambda ops, q: q.pipe(ops.take(3)),
    lambda ops, q: q.pipe(ops.skip(1)),
    lambda ops, q: q.pipe(ops.filter(lambda v: key_of(v) != 1)),
    lambda ops, q: q.pipe(ops.take_last(1)),
    lambda ops, q: q.pipe(ops.map(lambda v: (v[0], v[1] + 7))),
    lambda ops, q: q.pipe(ops.start_with(START)),
)


def chosen(choices: Sequence[Any], part: Part) -> Any:
    return choices[part.number % len(choices)]


def raises(s: Scope, p: Part) -> Any:
    query = s.make(p.parts[0], 0)
    return chosen(RAISE, p)(s.ops, s.rx, lambda function: guarded(s, p.number // len(RAISE), query, function))


def grouped(s: Scope, p: Part) -> Any:
    """Groups, of which the function that names them may raise."""
    query, key = s.make(p.parts[0], 0), key_of
    if p.number % 3 == 0:
        query, key = guarded(s, p.number // 3, query, key_of)
    return query.pipe(s.ops.group_by(key), s.ops.flat_map(lambda g: s.make(p.parts[1], 1, g, group=g)))


def windows(s: Scope, p: Part) -> Any:
    return s.make(p.parts[0], 0).pipe(
        s.ops.window_with_count(2 + p.number % 2), s.ops.flat_map(lambda w: s.make(p.parts[1], 1, w))
    )


def always(query: Any) -> Callable[[Value], Any]:
    """Return a selector that holds nothing but what it returns, so that one plan serves all groups."""
    return lambda value: query


def for_each(s: Scope, p: Part) -> Any:
    """An inner pipeline for each of a few elements; what makes it may raise."""
    query = s.make(p.parts[0], 0).pipe(s.ops.take(1 + p.number % 3))

    selector: Callable[[Value], Any] = lambda value: s.make(p.parts[1], 1, group=Keyed(key_of(value)))  # noqa: E731
    if p.number % 4 < 2:
        selector = always(s.make(p.parts[1], 1))
    if p.number % 2:
        query, selector = guarded(s, p.number // 4, query, selector)
    return query.pipe(getattr(s.ops, FOR_EACH[p.number // 4 % len(FOR_EACH)])(selector))


def by_key(s: Scope, p: Part) -> Any:
    """One part in the groups of one key, another one in the others."""
    choose = one_or_other(s.group, p.number % 3, s.make(p.parts[0], 0), s.make(p.parts[1], 1))
    return s.rx.defer(choose) if p.number % 2 else choose()


def one_or_other(group: Any, key: int, one: Any, other: Any) -> Callable[..., Any]:
    return lambda _=None: one if group.key == key else other


def pairs(s: Scope, p: Part) -> Any:
    a, b = s.make(p.parts[0], 0), s.make(p.parts[1], 1)
    if p.number % 5 == 4:
        pair = paired(s)
        return a.pipe(s.ops.sequence_equal(b, lambda x, y: bool(pair(x, y))), s.ops.map(lambda x: (-1, int(x))))
    return a.pipe(s.ops.zip_latest(b) if p.number % 5 == 3 else s.ops.zip(b), s.ops.starmap(paired(s)))


def catches(s: Scope, p: Part) -> Any:
    query, notes = s.make(p.parts[0], 0), s.notes
    if notes is not None:
        query = query.pipe(s.ops.do_action(on_error=notes.caught.append))
    if p.number % 3 == 2:
        return query.pipe(s.ops.retry(2))
    return query.pipe(s.ops.catch(s.rx.of((-1, 5)) if p.number % 3 else lambda error, source: s.rx.of((-1, 6))))


def read(s: Scope, p: Part) -> Any:
    return s.read[-1 - p.number % len(s.read)]


MAKES: dict[str, Callable[[Scope, Part], Any]] = {
    "read": read,
    "once": lambda s, p: s.rx.of(START),
    "raise": raises,
    "take": lambda s, p: chosen(TAKE, p)(s.ops, s.make(p.parts[0], 0)),
    "share": lambda s, p: s.make(p.parts[1], 1, chosen(SHARE, p)(s.ops, s.make(p.parts[0], 0))),
    "publish": lambda s, p: chosen(PUBLISH, p)(
        s.ops, s.make(p.parts[0], 0), lambda shared: s.make(p.parts[1], 1, shared)
    ),
    "group": grouped,
    "window": windows,
    "each": for_each,
    "defer": lambda s, p: s.rx.defer(lambda _: s.make(p.parts[0], 0)),
    "key": by_key,
    "merge": lambda s, p: s.make(p.parts[0], 0).pipe(s.ops.merge(s.make(p.parts[1], 1))),
    "pair": pairs,
    "latest": lambda s, p: s.make(p.parts[0], 0).pipe(
        (s.ops.with_latest_from if p.number % 2 else s.ops.combine_latest)(s.make(p.parts[1], 1)),
        s.ops.starmap(joined),
    ),
    "repeat": lambda s, p: s.make(p.parts[0], 0).pipe(s.ops.take(2), s.ops.repeat(2)),
    "catch": catches,
}
ONE = ("raise", "raise", "take", "defer", "repeat", "catch")
TWO = ("share", "share", "publish", "group", "group", "window", "each", "key", "merge", "pair", "pair", "latest")


WITHIN = ("share", "share", "publish", "group", "group", "window", "each", "each", "defer", "key", "key", "merge")


def parts(*, depth: int = 4) -> st.SearchStrategy[Part]:
    """Return a strategy for parts that are up to *depth* deep, in which something raises."""
    return parts_within(depth).filter(lambda part: any(each.name == "raise" for each in part.walk()))


def parts_within(depth: int) -> st.SearchStrategy[Part]:
    numbers = st.integers(0, 59)

    @st.composite
    def made(draw: DrawFn, left: int) -> Part:
        name = draw(st.sampled_from(("read", *ONE, *TWO, *TWO) if left else ("read", "read", "read", "once")))
        inside = 0 if name in ("read", "once") else 1 if name in ONE else 2
        return Part(name, draw(numbers), tuple(draw(made(left - 1)) for _ in range(inside)))

    return made(depth)


def spines() -> st.SearchStrategy[Part]:
    """Return a strategy for what raises and is shared, and is paired by who reads it deep within groups and parts."""
    numbers = st.integers(0, 59)

    @st.composite
    def made(draw: DrawFn) -> Part:
        reading = st.builds(Part, st.just("read"), numbers)
        once = st.builds(lambda n, part: Part("each", n, (Part("once"), part)), numbers, reading)
        small = st.one_of(parts_within(1), once, reading)
        part = Part("pair", draw(numbers), (draw(small), draw(small)))
        for name in draw(st.lists(st.sampled_from(WITHIN), min_size=1, max_size=5)):
            side = [] if name in ONE else [draw(small)]
            last = draw(st.booleans()) or name not in ("key", "merge")
            part = Part(name, draw(numbers), tuple([*side, part] if last else [part, *side]))
        raising = Part("raise", draw(numbers), (Part("read", draw(numbers)),))
        return Part(draw(st.sampled_from(("share", "share", "publish"))), draw(numbers), (raising, part))

    return made()


@st.composite
def streams(draw: DrawFn) -> list[list[Timed]]:
    """Draw what two sources emit: at times several events at once, and at the end all ways to end."""
    found: list[list[Timed]] = [[], []]
    time_s = 1.0
    event = st.tuples(st.sampled_from((0, 0, 1)), st.sampled_from((1.0, 1.0, 0.0)))
    for source, gap_s in draw(st.lists(event, min_size=2, max_size=9)):
        time_s += gap_s if found[source] else 1.0
        number = len(found[source]) + 30 * source
        found[source].append(Timed(time_s, NEXT, (number, number)))
    for each in found:
        if kind := draw(st.sampled_from((COMPLETED, COMPLETED, COMPLETED, None, ERROR))):
            time_s += 1.0
            each.append(Timed(time_s, kind, ValueError("over") if kind == ERROR else None))
    return found


def remembers(part: Part) -> bool:
    """Whether a shared part gives elements to who reads it later, and may by then be paired with others."""
    later = {"publish": {1, 2}, "share": {2, 3}}
    sizes = {"publish": len(PUBLISH), "share": len(SHARE)}
    return any(each.name in later and each.number % sizes[each.name] in later[each.name] for each in part.walk())


class SkippingRun(StoredRun):
    """A run under ``skip``."""

    policy = "skip"


@contextmanager
def skips_noted() -> Iterator[dict[Key, bool]]:
    """Note of each error whether the host has skipped it."""
    found, met, last = dict[Key, bool](), Counter[Place](), list[Any]()
    absorb = QueryEngine.absorb

    def noted(engine: Any, instance: Any, node: Any, error: Exception) -> bool:
        skipped = absorb(engine, instance, node, error)
        if isinstance(error, Spoilt) and not any(each is error for each in last):
            last.append(error)
            met[error.place] += 1
            found[*error.place, met[error.place]] = skipped
        return skipped

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QueryEngine, "absorb", noted)
        yield found


def plain(
    part: Part, given: Sequence[Sequence[Timed]], until_s: float, skips: dict[Key, bool], *, quiet: bool = False
) -> tuple[list[Timed], Notes]:
    """Run *part* on plain `reactivex`, with what the host has skipped left out, or if *quiet* let through."""
    notes = Notes(skips, quiet)

    def build(ops: Any, rx: Any, *sources: Any) -> Any:
        return Scope(ops, rx, notes, sources, Keyed(0)).make(part, 0)

    return run_plain(build, given, until_s, patience=12), notes


def check_skips(part: Part, given: Sequence[Sequence[Timed]], script: Script) -> str:
    """Check one drawn query; return how it has fared.

    *Raises* `AssertionError` for a wrong value, a pair out of step, an error skipped that something catches, and
      a query that ends for an error that could be skipped.
    """
    until_s = 30.0
    with skips_noted() as skips:
        try:
            came = SkippingRun(part, given, until_s, []).play()
        except QueryRefused as refused:
            assert "pairs by position" in str(refused), refused
            return "refused"
    expected, notes = plain(part, given, until_s, skips)
    compare(f"skipping {skips}", given, expected, came)
    if notes.unequal:
        _, quiet = plain(part, given, until_s, skips, quiet=True)
        wrong = notes.unequal - notes.mixed - quiet.unequal - quiet.mixed
        assert not wrong, f"out of step at {wrong}: {skips}"
    names = {each.name for each in part.walk()}
    for place, skipped in skips.items():
        if skipped and "catch" in names:
            otherwise, flipped = plain(part, given, until_s, {**skips, place: False})
            ended = {str(each.value) for each in otherwise if each.kind == ERROR}
            hit = [each for each in flipped.caught if getattr(each, "place", None) == place[:2]]
            assert not hit or str(hit[0]) in ended, f"caught: {place}"
        assert skipped or names & {"catch", "pair"} or remembers(part), f"needlessly raised: {place}"
    for each in ([["crash"]], script):
        compare(f"crashed by {each}", given, came, SkippingRun(part, given, until_s, each).play())
    return "failed" if not all(skips.values()) else "skipped" if skips else "quiet"
