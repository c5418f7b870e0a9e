"""Each sink goes on from its own position, whatever other sinks the app has, had, or in which order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import DataObject, booleans, data, integers, sampled_from
from hypothesis.strategies import permutations as permutations_of
from lanes import crossed, examples

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import CallbackSink, ListSource, QueryEvaluator
from hosting.edges.sink_positions import Known, matched

NAMES = ("a", "b", "c")
VALUES = 10


class Observer:
    def on_next(self, n: int, value: Any, /) -> None: ...

    def on_error(self, n: int, error: Exception, /) -> None: ...

    def on_completed(self, n: int, /) -> None: ...


class Module:
    """Functions that the app still has, whether it declares them or not."""

    a = b = c = staticmethod(print)


PATHS = {"local": "World.sink.<locals>.{}", "of the module": "Module.{}", "gone where it is not declared": "{}"}
"""What functions are called: whether one that is not declared is there can be told of those of a module alone."""


class World:
    """Functions of sinks, some of which are down, and what they were given."""

    def __init__(self, path: str = "local") -> None:
        self.path = PATHS[path]
        self.got: dict[str, list[int]] = {name: [] for name in NAMES}
        self.down: dict[str, int] = {}
        """From which id on a function raises."""
        self.store = MemoryStore()

    def sink(self, name: str) -> CallbackSink:
        def take(n: int, value: Any) -> None:
            if n >= self.down.get(name, 1 << 30):
                raise RuntimeError("down")
            self.got[name].append(n)

        take.__qualname__ = self.path.format(name)
        return CallbackSink(take)

    def run(
        self,
        names: tuple[str, ...],
        values: int,
        *,
        kill: bool = False,
        late: frozenset[str] = frozenset(),
    ) -> list[str]:
        """Run an app that has the sinks *names*, some of them declared *late*; return what it reports."""
        store = self.store = self.store.reopen()
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
        pushed = evaluator.push("n")
        evaluator.create("q", rx.source("n").map(lambda n: n))
        for name in names:
            if name not in late:
                evaluator.sink("q", self.sink(name))
        evaluator.start()
        for name in names:
            if name in late:
                evaluator.sink("q", self.sink(name))
        evaluator.checkpoint()  # which knows them
        for value in range(values):
            pushed.push([value])
            while evaluator.step():
                pass
            if kill and value % 2:
                evaluator.checkpoint()
        if not kill:
            evaluator.checkpoint()
        said = [f"{each.kind} {each.subject}" for each in evaluator.incidents.open()]
        if not kill:
            evaluator.close()
        return said


NOW = [names for count in (1, 2, 3) for names in permutations(NAMES, count)]


@pytest.mark.parametrize(
    "down, path", crossed([{"b": 2}, {"a": 0, "b": 2}, {"a": 3, "b": 2, "c": 5}, {}], PATHS, nightly=1), ids=str
)
def test_a_sink_goes_on_from_its_own_position(down: dict[str, int], path: str) -> None:
    """Sinks fail, and are mended in an app that has some of them, in any order: each gets what it lacks, once."""
    for now in NOW:
        world = World(path)
        world.down = down
        world.run(NAMES, VALUES)
        world.down = {}
        said = world.run(now, 1)
        for name in now:
            assert world.got[name] == list(range(VALUES + 1)), (now, name)
        assert len([each for each in said if each.startswith("holder")]) == len(NAMES) - len(now)
        world.run(NAMES, 1)  # those that were not declared for a while are back
        assert all(world.got[name] == list(range(VALUES + 2)) for name in NAMES), now


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("renamed", [True, False])
def test_what_cannot_be_told_apart_loses_nothing(renamed: bool, path: str) -> None:
    """A sink that nobody knows goes on where the furthest behind was: it may get again what it had, as promised."""
    world = World(path)
    world.down = {"b": 2}
    world.run(("a", "b"), VALUES)
    world.down = {}
    world.run(("a", "c"), 1) if renamed else world.run(("c",), 1)
    assert world.got["c"] == list(range(2, VALUES + 1))
    assert not renamed or world.got["a"] == list(range(VALUES + 1))


MARKS = (("f", "1"), ("f", "2"), ("g", "1"))


def test_no_position_is_above_that_of_a_sink_that_it_may_be() -> None:
    """Over all small tables: a sink takes no position above that of one that it may be, and none is forgotten."""
    for before in product(MARKS, repeat=2):
        for declared in product((True, False), repeat=2):
            known = [
                Known(position, label, was_declared, fingerprint=fingerprint, number=number)
                for number, (position, (label, fingerprint), was_declared) in enumerate(
                    zip((7, 3), before, declared, strict=True)
                )
            ]
            for now in [each for count in (0, 1, 2, 3) for each in product((*MARKS, ("new", "")), repeat=count)]:
                hold_to_its_word(known, now, matched(known, list(now)))


def hold_to_its_word(known: list[Known], now: tuple[tuple[str, str], ...], found: list[Known]) -> None:
    here, left = found[: len(now)], found[len(now) :]
    assert [each.label for each in here] == [label for label, _ in now]
    assert not any(each.was_declared for each in left)
    numbers = [each.number for each in found]
    assert len(set(numbers)) == len(numbers) >= len(known) and set(numbers) >= {each.number for each in known}
    lowest = min((each.position for each in left), default=0)
    for label in {label for label, _ in now}:
        names = [name for name in now if name[0] == label]
        some = [each for each in known if each.label == label]
        exact = {name for name in names if names.count(name) == len([each for each in some if each.name == name])}
        for name, each in zip(now, here, strict=True):
            if name in exact:  # it is one of these, and nobody else
                assert each.position in {one.position for one in some if one.name == name}
            elif name[0] == label and len(names) > len(some):  # it may be new, and one that was edited
                assert each.position <= lowest
                rest = [one.position for one in some if one.name not in exact]
                assert each.position <= min(rest, default=lowest)
            elif name[0] == label:
                rest = [one for one in some if one.name not in exact]
                sure = [one.position for one in rest if one.was_declared]
                count = len([one for one in names if one not in exact])
                assert each.position == min(sure if count <= len(sure) else [one.position for one in rest])


def callback(got: list[int], down: dict[str, bool], name: str) -> CallbackSink:
    def take(n: int, value: Any) -> None:
        if down.get(name):
            raise RuntimeError("down")
        got.append(n)

    return CallbackSink(take)


class Mailing:
    """A sink without a name, which does not know what it has."""

    def __init__(self, address: str, got: list[int], down: dict[str, bool]) -> None:
        self.address = address
        self.given = got, down

    def open(self, stream: str, /) -> None:
        if self.given[1].get(self.address):
            raise ValueError("no such address")

    def write(self, first: int, values: Any, /) -> None:
        self.given[0].extend(range(first, first + len(values)))

    def end(self, n: int, error: Exception | None, /) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


KINDS: dict[str, Callable[[list[int], dict[str, bool], str], Any]] = {
    "callbacks of one function": callback,
    "objects without a label": lambda got, down, name: Mailing(name, got, down),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [("ann", "bob"), ("bob",), ("bob", "ann")])
@pytest.mark.parametrize("now", [("ann", "bob"), ("bob", "ann")])
@pytest.mark.parametrize("is_down", [True, False])
def test_what_a_sink_was_made_with_tells_it_from_others(
    kind: str, before: tuple[str, ...], now: tuple[str, ...], is_down: bool
) -> None:
    """One that could not be opened, or is new, gets all; the other one of that label gets nothing twice."""
    store, got, down = MemoryStore(), {"ann": list[int](), "bob": list[int]()}, {"ann": is_down}
    for count, names in ((5, before), (2, now)):
        with QueryEvaluator(store, background=False) as evaluator:
            pushed = evaluator.push("n")
            evaluator.create("q", rx.source("n").map(lambda n: n))
            for name in names:
                evaluator.sink("q", KINDS[kind](got[name], down, name))
            evaluator.start()
            pushed.push([0] * count)
            while evaluator.step():
                pass
        down.clear()
        store = store.reopen()
    assert got == {"ann": list(range(7)), "bob": list(range(7))}


@examples(300)
@given(data())
def test_no_sink_of_one_label_lacks_anything(draw: DataObject) -> None:
    """Sinks that one function has made come, go, are edited, fail and are declared late: each gets all that it had not.

    As many as before, so that none is new: one that is may be taken for one that was edited, or has been left out.
    """
    store, total, edits = MemoryStore(), 0, dict.fromkeys(NAMES, 0)
    got: dict[str, list[int]] = {name: [] for name in NAMES}
    down: dict[str, bool] = {}

    def made(name: str) -> CallbackSink:
        edited = edits[name]

        def take(n: int, value: Any) -> None:
            if down.get(name):
                raise RuntimeError("down")
            got[name].append(n)
            assert edited >= 0

        return CallbackSink(take)

    for _ in range(draw.draw(integers(2, 4))):
        here = draw.draw(permutations_of(NAMES))
        late = {name for name in NAMES if draw.draw(booleans())}
        down = {name: draw.draw(integers(0, 2)) == 0 for name in NAMES}
        for name in NAMES:
            edits[name] += draw.draw(integers(0, 3)) == 0
        with QueryEvaluator(store, background=False) as evaluator:
            pushed = evaluator.push("n")
            evaluator.create("q", rx.source("n").map(lambda n: n))
            for name in here:
                if name not in late:
                    evaluator.sink("q", made(name))
            evaluator.start()
            for name in here:
                if name in late:
                    evaluator.sink("q", made(name))
            count = draw.draw(integers(0, 4))
            pushed.push([0] * count)
            while evaluator.step():
                pass
        total += count
        store = store.reopen()
    for name in NAMES:
        if not down[name]:
            assert sorted(set(got[name])) == list(range(total)), (name, got)


ORDERS = [("bob", "ann"), ("ann", "bob")]


@pytest.mark.parametrize("late", [(), ("ann",), ("bob",), ("ann", "bob")], ids=str)
@pytest.mark.parametrize("late_before", [(), ("ann",), ("bob",), ("ann", "bob")], ids=str)
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_one_that_was_never_opened_is_known_by_what_it_was_made_with(
    order: tuple[str, ...], late_before: tuple[str, ...], late: tuple[str, ...]
) -> None:
    """Declared before the start or after it, in either order: it gets all, and its neighbour nothing twice."""
    for order_before in ORDERS:
        store, got, down = MemoryStore(), {"ann": list[int](), "bob": list[int]()}, {"bob": True}
        for names, some in ((order_before, late_before), (order, late)):
            with QueryEvaluator(store, background=False) as evaluator:
                pushed = evaluator.push("n")
                evaluator.create("q", rx.source("n").map(lambda n: n))
                for name in names:
                    if name not in some:
                        evaluator.sink("q", Mailing(name, got[name], down))
                evaluator.start()
                for name in names:
                    if name in some:
                        evaluator.sink("q", Mailing(name, got[name], down))
                pushed.push([0] * 3)
                while evaluator.step():
                    pass
            down.clear()
            store = store.reopen()
        assert got == {"ann": list(range(6)), "bob": list(range(6))}, order_before


def test_a_sink_that_is_refused_takes_no_place() -> None:
    """Nothing of the others changes, and who is not declared is let go of when the buffer is full."""
    store, got = MemoryStore(), {"ann": list[int](), "bob": list[int]()}
    down = {"ann": True}
    for count, is_refused in ((10, False), (0, True), (2, False)):
        with QueryEvaluator(store, background=False) as evaluator:
            pushed = evaluator.push("n")
            evaluator.create("q", rx.source("n").map(lambda n: n))
            for name in () if is_refused else ("ann", "bob"):
                evaluator.sink("q", callback(got[name], down, name))
            evaluator.start()
            if is_refused:
                before = dict(evaluator.stream("q").holders), list(evaluator.stream("q").absent)
                with pytest.raises(ValueError, match="dead_letter"):
                    evaluator.sink("q", callback([], down, "ann"), on_error="dead_letter")
                assert (dict(evaluator.stream("q").holders), list(evaluator.stream("q").absent)) == before
            pushed.push([0] * count)
            while evaluator.step():
                pass
        down.clear()
        store = store.reopen()
    assert got == {"ann": list(range(12)), "bob": list(range(12))}


@pytest.mark.parametrize("edited", [True, False])
def test_one_of_two_that_is_declared_late_leaves_no_holder_that_stops_others(edited: bool) -> None:
    """The other one, which nobody declares any more, is let go of when the buffer is full."""

    def made(got: list[int], name: object) -> CallbackSink:
        return CallbackSink(lambda n, value: got.append(n) if name else None)

    store, got = MemoryStore(), list[int]()
    for names, count in ((("ann", "bob" if edited else "ann"), 10), (("cid" if edited else "ann",), 500)):
        with QueryEvaluator(store, background=False, buffer_events_max=100) as evaluator:
            pushed = evaluator.push("n")
            evaluator.create("q", rx.source("n").map(lambda n: n))
            if len(names) == 2:
                for name in names:
                    evaluator.sink("q", made([], name))
            evaluator.start()
            if len(names) == 1:
                evaluator.sink("q", made(got, names[0]))
            for _ in range(count):
                pushed.push([0])
                while evaluator.step():
                    pass
        store = store.reopen()
    assert got[-1] == 509 and sorted(set(got)) == got


def test_who_is_known_for_certain_goes_on_there_whoever_is_declared_before() -> None:
    """One that was edited takes a place that may be another's, and not the position that is certain."""
    store, got, down = MemoryStore(), {"ann": list[int](), "bob": list[int]()}, {"bob": True}
    edits = {"ann": 0, "bob": 0}

    def made(name: str) -> CallbackSink:
        edit = edits[name]

        def take(n: int, value: Any) -> None:
            if down.get(name):
                raise RuntimeError(f"down {edit}")
            got[name].append(n)

        return CallbackSink(take)

    for late in (False, True):
        with QueryEvaluator(store, background=False) as evaluator:
            pushed = evaluator.push("n")
            evaluator.create("q", rx.source("n").map(lambda n: n))
            if late:
                evaluator.start()
            for name in ("bob", "ann"):
                evaluator.sink("q", made(name))
            evaluator.start()
            pushed.push([0] * 5)
            while evaluator.step():
                pass
        store, edits["bob"] = store.reopen(), 1
        down.clear()
    assert got == {"ann": list(range(10)), "bob": list(range(10))}


def test_of_more_than_there_were_any_may_be_the_new_one(caplog: pytest.LogCaptureFixture) -> None:
    """Where nothing tells sinks apart, each begins where a new one does, and a warning says why."""
    store, got = MemoryStore(), list[int]()
    for count in (1, 2):
        with QueryEvaluator(store, background=False) as evaluator:
            pushed = evaluator.push("n")
            evaluator.create("q", rx.source("n").map(lambda n: n))
            for _ in range(count):
                evaluator.sink("q", CallbackSink(lambda n, value: got.append(n)))
            evaluator.start()
            pushed.push([0] * 3)
            while evaluator.step():
                pass
        store = store.reopen()
    assert sorted(got) == sorted([*range(3), *range(6), *range(6)])
    (said,) = [each.getMessage() for each in caplog.records if "nothing tells" in each.getMessage()]
    assert "goes on at id 0" in said and "up to 2 may" in said and "give each a label" in said


def test_a_label_may_be_given() -> None:
    """It tells callbacks apart that nothing else does."""
    assert CallbackSink(print, label="ann").label == "ann"
    for label in ("", 3):
        with pytest.raises(TypeError, match="`label` must be a text"):
            CallbackSink(print, label=label)  # type: ignore[arg-type]


@examples(400)
@given(data())
def test_no_sink_lacks_anything_whatever_is_declared_beside_it(draw: DataObject) -> None:
    """Sinks come, go, fail, are mended and declared late, between stops and kills: none has a gap in what it gets.

    A function that is gone and another one that is new are one that was renamed (`test_moved_sinks.py`).
    """
    world, total = World(draw.draw(sampled_from(["local", "of the module"]))), 0
    for _ in range(draw.draw(integers(2, 5))):
        here = draw.draw(permutations_of(NAMES))[: draw.draw(integers(0, len(NAMES)))]
        world.down = {name: total + draw.draw(integers(0, 6)) for name in here if draw.draw(integers(0, 2)) == 0}
        late = frozenset(name for name in here if draw.draw(booleans()))
        values = draw.draw(integers(0, 5))
        world.run(tuple(here), values, kill=draw.draw(booleans()), late=late)
        total += values
    for name in NAMES:
        ids = [n for place, n in enumerate(world.got[name]) if n not in world.got[name][:place]]
        assert ids == list(range(ids[0], ids[0] + len(ids))) if ids else True, (name, world.got[name])


@pytest.mark.parametrize("path", PATHS)
def test_a_sink_declared_after_the_start_is_known(path: str) -> None:
    """It goes on from its own position, not from that of another which is not declared."""
    world = World(path)
    world.down = {"b": 2, "c": 5}
    world.run(NAMES, VALUES)
    world.down = {}
    evaluator = QueryEvaluator(world.store.reopen(), background=False, checkpoint_interval_s=1e9)
    evaluator.push("n")
    evaluator.create("q", rx.source("n").map(lambda n: n))
    evaluator.sink("q", world.sink("c"))
    evaluator.start()
    for name in ("a", "b"):
        evaluator.sink("q", world.sink(name))
    while evaluator.step():
        pass
    assert world.got == {name: list(range(VALUES)) for name in NAMES}
    assert not [each for each in evaluator.incidents.open() if each.kind == "holder"]


@pytest.mark.parametrize("name", ["sink 0", "sink 17", "store me"])
def test_a_subscriber_is_not_called_as_sinks_are(name: str) -> None:
    """It would share the holder of a sink, which would lose what the subscriber acknowledges."""
    subscribes: list[Callable[[QueryEvaluator], object]] = [
        lambda evaluator: evaluator.stream("q").subscribe(Observer(), name=name),
    ]
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.push("n")
        evaluator.create("q", rx.source("n").map(lambda n: n))
        for each in subscribes:
            with pytest.raises(ValueError, match="holds a stream under a name that begins so"):
                each(evaluator)


class Mail:
    """A sink that knows no position, and may refuse to open."""

    label = "mail"

    def __init__(self, *, refuses: bool) -> None:
        self.refuses, self.got = refuses, list[int]()

    def open(self, stream: str, /) -> int | None:
        if self.refuses:
            raise ValueError("it is not configured")
        return None

    def write(self, first: int, values: Any, /) -> None:
        self.got += range(first, first + len(values))

    def end(self, n: int, error: Exception | None, /) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


@pytest.mark.parametrize("away", [0, 1, 2], ids="taken out for {} runs".format)
@pytest.mark.parametrize("beside", [False, True], ids=["alone then", "beside the other one"])
@pytest.mark.parametrize("late", [False, True], ids=["before the start", "after the start"])
def test_a_sink_that_has_never_opened_lacks_nothing_once_it_is_mended(late: bool, beside: bool, away: int) -> None:
    """Its place is kept from its declaration on, also while it is taken out to be mended, and is told as any other.

    It is not that of the sink beside it.
    """
    world, mended = World(), Mail(refuses=False)
    for n, mail in enumerate((Mail(refuses=True), *[None] * away, mended)):
        world.store = world.store.reopen()
        with QueryEvaluator(world.store, background=False, retain_events=2) as evaluator:
            evaluator.source("n", ListSource(list(range(5 * n + 5)), follow=True))
            evaluator.create("q", rx.source("n"))
            if late and n == 0:
                evaluator.start()
            if mail is not mended or beside:
                evaluator.sink("q", world.sink("a"))
            if mail is not None:
                evaluator.sink("q", mail)
            while evaluator.step():
                pass
            told = [each.message for each in evaluator.incidents.open() if each.kind == "holder"]
            if mail is None:
                assert ["that was never opened" in each for each in told] == [True]
            elif beside:
                assert not told
    assert mended.got == list(range(5 * away + 10))
