"""Each sink goes on from its own position, whatever other sinks the app has, had, or in which order."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import DataObject, booleans, data, integers, sampled_from
from hypothesis.strategies import permutations as permutations_of
from lanes import crossed, examples

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import App, CallbackSink, ListSource, QueryEvaluator
from hosting.edges.refused_sink import RefusedSink
from hosting.edges.sink_positions import UNMADE, Known, label_of, matched

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


class Refused(CallbackSink):
    """A sink that is refused when it is opened."""

    def open(self, stream: str, /) -> int | None:
        raise ValueError("down")


class World:
    """Functions of sinks, some of which are down, and what they were given."""

    def __init__(self, path: str = "local", *, retain: int = 10_000) -> None:
        self.path, self.retain = PATHS[path], retain
        self.got: dict[str, list[int]] = {name: [] for name in NAMES}
        self.down: dict[str, int] = {}
        """From which id on a function raises; below 0, it is refused when it is opened."""
        self.store = MemoryStore()

    def sink(self, name: str) -> CallbackSink:
        def take(n: int, value: Any) -> None:
            if n >= self.down.get(name, 1 << 30):
                raise RuntimeError("down")
            self.got[name].append(n)

        take.__qualname__ = self.path.format(name)
        return (Refused if self.down.get(name, 0) < 0 else CallbackSink)(take)

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
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9, retain_events=self.retain)
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


LABELS = ("f", "g", UNMADE)


def test_no_position_is_above_that_of_a_sink_that_it_may_be() -> None:
    """Over all small tables: each that is known keeps its place, no other begins above one that it may be."""
    for before in product(LABELS, repeat=2):
        for declared in product((True, False), repeat=2):
            known = [
                Known(position, label, was_declared, number=number)
                for number, (position, label, was_declared) in enumerate(zip((7, 3), before, declared, strict=True))
            ]
            for now in [each for count in (0, 1, 2, 3) for each in permutations((*LABELS, UNMADE), count)]:
                hold_to_its_word(known, now, matched(known, [Known(0, each) for each in now]))


def hold_to_its_word(known: list[Known], now: tuple[str, ...], found: list[Known]) -> None:
    here, left = found[: len(now)], found[len(now) :]
    assert [each.label for each in here] == list(now)
    assert not any(each.was_declared for each in left)
    numbers = [each.number for each in found]
    assert len(set(numbers)) == len(numbers) >= len(known) and set(numbers) >= {each.number for each in known}
    for each in found:
        was = next((one for one in known if one.number == each.number), None)
        if was is None:  # a new one: as low as all that it may be
            new = [one for one in here if one.number not in {one.number for one in known}]
            unmade = [one.position for one in left if one.label == UNMADE]
            declared = {one.number for one in known if one.was_declared and one.label != UNMADE}
            renamed = [one.position for one in left if one.number in declared]
            is_sure = UNMADE not in now and len(new) <= len(renamed)
            lowest = min([*unmade, *(renamed if is_sure else [])], default=0)
            assert each.position == (0 if each.label == UNMADE else lowest)
        else:  # of several of a label, which only an older store has, any may be any
            alike = [one.position for one in known if one.label == was.label and was.label != UNMADE]
            assert (each.label, each.position) == (was.label, min([was.position, *alike]))


class Mailing:
    """A sink that does not know what it has."""

    def __init__(self, address: str, got: list[int], *, label: str = "", breaks: bool = False) -> None:
        self.address, self.got, self.breaks = address, got, breaks
        if label:
            self.label = label

    def open(self, stream: str, /) -> None: ...

    def write(self, first: int, values: Any, /) -> None:
        if self.breaks:
            raise ValueError("no such address")
        self.got.extend(range(first, first + len(values)))

    def end(self, n: int, error: Exception | None, /) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


def callback(got: list[int]) -> CallbackSink:
    return CallbackSink(lambda n, value: got.append(n))


TWINS: dict[str, Callable[[list[int]], Any]] = {
    "callbacks of one function": callback,
    "methods of two instances": lambda got: CallbackSink(Taking(got).take),
    "one function with two arguments": lambda got: CallbackSink(partial(take_into, got)),
    "objects without a label": lambda got: Mailing("", got),
    "objects of one label": lambda got: Mailing("", got, label="mail"),
}


class Taking:
    def __init__(self, got: list[int]) -> None:
        self.got = got

    def take(self, n: int, value: Any) -> None:
        self.got.append(n)


def take_into(got: list[int], n: int, value: Any) -> None:
    got.append(n)


TWICE = r"stream 'q' has a sink with the label .* takes label="


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("kind", TWINS)
def test_two_sinks_of_a_stream_have_two_labels(kind: str, started: bool) -> None:
    """The second is refused where it is declared, with the way, and the first one is written."""
    got = list[int](), list[int]()
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        pushed = evaluator.push("n")
        for name, each in zip(("q", "other"), got, strict=True):
            evaluator.create(name, rx.source("n").map(lambda n: n))
            evaluator.sink(name, TWINS[kind](each))
        if started:
            evaluator.start()
        with pytest.raises(ValueError, match=TWICE):
            evaluator.sink("q", TWINS[kind]([]))
        evaluator.start()
        pushed.push([0] * 3)
        while evaluator.step():
            pass
        assert [*evaluator.stream("q").holders] == ["sink 0"]
    assert got == ([0, 1, 2], [0, 1, 2])


@pytest.mark.parametrize("kind", TWINS)
def test_an_app_refuses_it_at_once(kind: str) -> None:
    """Before anything is opened; what a function makes is looked at where it is made."""
    app = App()
    app.push("n")
    for name in ("q", "other"):
        app.query(name, rx.source("n"))
        app.sink(name, TWINS[kind]([]))
    with pytest.raises(ValueError, match=TWICE):
        app.sink("q", TWINS[kind]([]))
    app.sink("q", lambda: TWINS[kind]([]))
    with pytest.raises(ValueError, match=TWICE):
        app.evaluator(MemoryStore())


@pytest.mark.parametrize("breaks_in", ["write", "open"])
@pytest.mark.parametrize("way", ["declared again", "reopened", "at the next start"])
@pytest.mark.parametrize("runs", [1, 2])
def test_one_that_failed_goes_on_where_it_was(breaks_in: str, way: str, runs: int) -> None:
    """Mended and declared again under its label, reopened, or at the next start: it gets the rest, and once."""
    store, got, beside = MemoryStore(), list[int](), list[int]()
    for run in range(runs + 1):
        sink = Mailing("", got)
        if run == runs:
            if breaks_in == "write":
                sink.breaks = True
            else:
                sink.open = refusing  # type: ignore[method-assign]
        with QueryEvaluator(store, background=False, retain_events=2) as evaluator:
            pushed = evaluator.push("n")
            evaluator.create("q", rx.source("n").map(lambda n: n))
            evaluator.sink("q", sink)
            evaluator.sink("q", callback(beside))
            evaluator.start()
            pushed.push([0] * 5)
            while evaluator.step():
                pass
            evaluator.checkpoint()
            if run == runs and way != "at the next start":
                if way == "reopened":
                    sink.breaks = False
                    sink.__dict__.pop("open", None)
                    evaluator.reopen("q")
                else:
                    evaluator.sink("q", Mailing("", got))
                while evaluator.step():
                    pass
                assert not evaluator.incidents.open()
                assert [each.status for each in evaluator.statistics().sinks] == ["open"] * 2
        store = store.reopen()
    with QueryEvaluator(store, background=False) as evaluator:
        evaluator.push("n").push([0])
        evaluator.create("q", rx.source("n").map(lambda n: n))
        evaluator.sink("q", callback(beside))
        evaluator.sink("q", Mailing("", got))
        while evaluator.step():
            pass
        assert not evaluator.incidents.open()
    assert got == beside == list(range(5 * runs + 6))


def test_of_two_that_had_one_label_in_an_older_store_each_gets_all() -> None:
    """Whichever of them is given another label, it begins where the lowest of both was."""
    for now in (("f", "g"), ("g", "f"), ("g", "h"), ("g",)):
        found = matched([Known(10, "f"), Known(5, "f", number=1)], [Known(0, each) for each in now])
        assert {each.position for each in found} == {5}


BEGINS: dict[str, tuple[list[list[str]], int]] = {
    "beside another one": ([["mail"], ["mail", "sms"]], 0),
    "in the place of one": ([["mail"], ["sms"]], 3),
    "in its place, both back": ([["mail"], ["sms"], ["mail", "sms"]], 3),
    "in its place, a run later": ([["mail"], [], ["sms"]], 0),
    "two in the place of one": ([["mail"], ["sms", "post"]], 0),
    "one in the place of two": ([["mail", "post"], ["sms"]], 3),
    "beside one that cannot be made": ([["mail"], ["(mail)", "sms"], ["mail", "sms"]], 0),
    "made at last": ([["mail"], ["mail", "(sms)"], ["mail", "sms"]], 0),
    "made at last, and left out before": ([["mail"], ["mail", "(sms)"], ["mail"], ["mail", "sms"]], 0),
    "of another class": ([["MAIL"], ["sms"]], 0),
    "where one of another class was left long ago": ([["MAIL"], ["mail"], ["mail", "sms"]], 0),
}
"""Sinks that each app has, in order ("(mail)" cannot be made, "MAIL" is of another class), and where sms begins."""


class OtherMailing(Mailing):
    """A sink of another class."""


def made(name: str, got: list[int]) -> Any:
    if name.startswith("("):
        return RefusedSink(ValueError("no folder"))
    return (OtherMailing if name.isupper() else Mailing)("", got, label=name)


UNMADE_APPS = [
    ["a", "a (c)", "a", "a c"], ["a b", "a (c)", "a", "a c"], ["a b", "a (b) (c)", "a b", "a b c"],
    ["a b", "a (b)", "a (b)", "a b"], ["a", "(c) a", "b a", "b a c"], ["a b", "a (b) (c)", "a b (c)", "a b c"],
    ["(a) (b)", "a", "a b"], ["a", "a (b) (c)", "a (b)", "a c", "a b c"],
]  # fmt: skip


@pytest.mark.parametrize("apps", UNMADE_APPS, ids=" | ".join)
def test_a_sink_that_could_not_be_made_keeps_its_place(apps: list[str]) -> None:
    """Whatever else comes and goes, and though nothing is retained: once made, each has all, and no place is left."""
    store, got = MemoryStore(), {name: list[int]() for name in "abc"}
    for number, app in enumerate(apps):
        new = {name for each in apps[number:] for name in each if name.isalpha()} - {*"".join(apps[:number])}
        with QueryEvaluator(store, background=False, retain_events=100 if new else 0) as evaluator:
            pushed = evaluator.push("n")
            evaluator.create("q", rx.source("n").map(lambda n: n))
            for name in app.split():
                evaluator.sink("q", made(name, got.get(name, [])))
            pushed.push([0] * 3)
            while evaluator.step():
                pass
            if number == len(apps) - 1:
                there = {name for each in apps for name in each if name.isalpha()}
                assert len(evaluator.stream("q").holders) == len(there)
                assert len(evaluator.incidents.open()) == len(there) - len(app.split())
        store = store.reopen()
    for name in apps[-1].split():
        assert got[name] == list(range(3 * len(apps))), name


@pytest.mark.parametrize("late", [False, True], ids=["before the start", "after it"])
@pytest.mark.parametrize("case", BEGINS)
def test_where_a_new_sink_begins(case: str, late: bool, caplog: pytest.LogCaptureFixture) -> None:
    """At 0, but in the place of one that the last app had; and the log says where it does not begin at 0."""
    apps, begins = BEGINS[case]
    store, got = MemoryStore(), list[int]()
    for names in apps:
        with QueryEvaluator(store, background=False) as evaluator:
            pushed = evaluator.push("n")
            evaluator.create("q", rx.source("n").map(lambda n: n))
            if late:
                evaluator.start()
            for name in names:
                evaluator.sink("q", made(name, got if name == "sms" else []))
            pushed.push([0] * 3)
            while evaluator.step():
                pass
        store = store.reopen()
    begins = 0 if late else begins
    assert got == list(range(begins, 3 * len(apps)))
    said = [each.getMessage() for each in caplog.records if "is new, and begins" in each.getMessage()]
    assert len(said) == bool(begins) and all("a Mailing to sms is new, and begins at id 3" in each for each in said)


@pytest.mark.parametrize("late", [False, True], ids=["before the start", "after it"])
def test_a_sink_that_is_refused_where_ids_are_gone_is_told_once_it_is_mended(late: bool) -> None:
    """It is written nowhere in silence above what it lacks: an incident names the ids, as if it had opened at first."""
    store, got, told = MemoryStore(), list[int](), list[str]()
    for run in range(3):
        sink: Any = Mailing("", got, label="b")
        if run == 1:
            sink.open = refusing
        with QueryEvaluator(store, background=False, retain_events=3) as evaluator:
            pushed = evaluator.push("n")
            evaluator.create("q", rx.source("n").map(lambda n: n))
            evaluator.sink("q", Mailing("", [], label="a"))
            if run and late:
                evaluator.start()
            if run:
                evaluator.sink("q", sink)
            for _ in range(10):
                pushed.push([0])
                while evaluator.step():
                    pass
            evaluator.checkpoint()
            told = [each.message for each in evaluator.incidents.open() if each.kind == "sink"]
        store = store.reopen()
    (said,) = told
    assert not got and "ids 0 to " in said and "are no longer kept" in said


def test_one_new_sink_takes_the_place_of_one() -> None:
    """Of two that could not be made, the other one keeps its place until it is made as well."""
    store, books = MemoryStore(), {"mail": list[int](), "sms": list[int]()}
    for made in ((), ("mail",), ("mail", "sms")):
        with QueryEvaluator(store, background=False, retain_events=0) as evaluator:
            pushed = evaluator.push("n")
            evaluator.create("q", rx.source("n").map(lambda n: n))
            for name, got in books.items():
                if made and name not in made:
                    continue  # taken out
                evaluator.sink("q", Mailing("", got, label=name) if made else RefusedSink(ValueError(name)))
            pushed.push([0] * 3)
            while evaluator.step():
                pass
        store = store.reopen()
    assert books == {"mail": list(range(9)), "sms": list(range(9))}


def test_a_sink_that_is_behind_and_fails_goes_on_behind_what_it_has() -> None:
    """Its own position counts, not the higher one that the store knows, also when it is opened again without one."""
    store, got = MemoryStore(), list[int]()
    for run in range(2):
        sink: Any = Mailing("", got)
        if run:
            sink.open = lambda stream: 2
            sink.write = lambda first, values: exec("raise ValueError('full')") if first + len(values) > 5 else None
        with QueryEvaluator(store, background=False) as evaluator:
            pushed = evaluator.push("n")
            evaluator.create("q", rx.source("n").map(lambda n: n))
            evaluator.sink("q", sink)
            pushed.push([0] * 5)
            while evaluator.step():
                pass
            if run:
                got.clear()
                del sink.open, sink.write
                evaluator.reopen("q")
                while evaluator.step():
                    pass
        store = store.reopen()
    assert got == list(range(5, 10))


def test_a_label_is_asked_for_once() -> None:
    """One that answers otherwise the next time takes nobody's place."""

    class Moody(Mailing):
        asked = 0

        @property
        def label(self) -> str:
            self.asked += 1
            return "mail" if self.asked > 2 else "sms"

        @label.setter
        def label(self, label: str) -> None: ...

    got = list[int](), list[int]()
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        pushed = evaluator.push("n")
        evaluator.create("q", rx.source("n").map(lambda n: n))
        evaluator.sink("q", Mailing("", got[0], label="mail"))
        evaluator.sink("q", Moody("", got[1]))
        pushed.push([0] * 3)
        while evaluator.step():
            pass
    assert got == ([0, 1, 2], [0, 1, 2])


def refusing(stream: str, /) -> None:
    raise ValueError("it is not configured")


class Odd(str):
    """A text that cannot be compared."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not mine")


class Enumerated(StrEnum):
    ANN = "ann"


def test_a_label_may_be_given() -> None:
    """It tells callbacks apart that nothing else does."""
    assert CallbackSink(print, label="ann").label == "ann"
    assert {type(label_of(CallbackSink(print, label=each))) for each in (Odd("ann"), Enumerated.ANN)} == {str}
    for label in ("", 3, Odd("")):
        with pytest.raises(TypeError, match="`label` must be a text"):
            CallbackSink(print, label=label)  # type: ignore[arg-type]


@examples(400)
@given(data())
def test_no_sink_lacks_anything_whatever_is_declared_beside_it(draw: DataObject) -> None:
    """Sinks come, go, fail, are refused, mended and declared late, between stops and kills, and nothing is retained.

    Each gets all from where it first began on, and all that were declared by the first app everything.
    """
    world, total = World(draw.draw(sampled_from(list(PATHS))), retain=0), 0
    first: set[str] = set()
    for number in range(draw.draw(integers(2, 5))):
        here = draw.draw(permutations_of(NAMES))[: draw.draw(integers(0, len(NAMES)))]
        first = first if number else {*here}
        world.down = {name: total + draw.draw(integers(0, 6)) for name in here if draw.draw(integers(0, 2)) == 0}
        world.down |= {name: -1 for name in here if draw.draw(integers(0, 3)) == 0}
        late = frozenset(name for name in here if draw.draw(booleans()))
        values = draw.draw(integers(0, 5))
        world.run(tuple(here), values, kill=draw.draw(booleans()), late=late)
        total += values
    world.down = {}
    world.run(tuple(sorted(first)), 1)
    for name in NAMES:
        ids = [n for place, n in enumerate(world.got[name]) if n not in world.got[name][:place]]
        if name in first:
            assert ids == list(range(total + 1)), (name, world.got[name])
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
                assert ["a Mail to mail, which has what is below id 0" in each for each in told] == [True]
            elif beside:
                assert not told
    assert mended.got == list(range(5 * away + 10))


@pytest.mark.parametrize("again", [False, True], ids=["by the next start", "by declaring it again"])
def test_a_new_sink_that_is_refused_says_where_it_begins(again: bool, caplog: pytest.LogCaptureFixture) -> None:
    """In the place of another one it does not begin at 0: the log says so at the refusal, as it is known afterwards."""
    store, post, refused, mended = MemoryStore(), *(Mail(refuses=each) for each in (False, True, False))
    post.label = "post"
    apps = [[post], [refused, mended]] if again else [[post], [refused], [mended]]
    for sinks in apps:
        store = store.reopen()
        with QueryEvaluator(store, background=False) as evaluator:
            pushed = evaluator.push("n")
            evaluator.create("q", rx.source("n").map(lambda n: n))
            for sink in sinks:
                evaluator.sink("q", sink)
                evaluator.start()
            pushed.push([0, 0])
            while evaluator.step():
                pass
    said = [each.getMessage() for each in caplog.records if "is new, and begins" in each.getMessage()]
    assert len(said) == 1 and "a Mail to mail is new, and begins at id 2" in said[0]
    assert mended.got == list(range(2, 2 * len(apps)))
