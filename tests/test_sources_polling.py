"""Long polls: pulls of a worthwhile size, waits that end, and hosts that are told when to look."""

from __future__ import annotations

from time import monotonic
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import GeneratorSource, ListSource, QueryEvaluator
from hosting.sources import Split
from hosting.sources.polling import PolledSource, Sizes, Want
from reliable_rx.reliable import Batch, Bounded, Findable, Listed, Waking
from reliable_rx.testing import check_source


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def polled(values: list[Any], *, at: int = 0, **want: Any) -> tuple[Any, Clock]:
    clock = Clock()
    options = {"bytes_of": want.pop("bytes_of", None), "clock": clock}
    return PolledSource(ListSource(values, follow=True), Want(**want), **options).open("0", at), clock


def test_the_promises_of_a_source_hold() -> None:
    """Behind any want a source is the source it was, also one that splits."""
    for want in (Want(), Want(count_min=5, count_max=9), Want(bytes_min=200, bytes_max=300, wait_s=0.0)):
        check_source(lambda want=want: PolledSource(ListSource({"a": list(range(40)), "b": []}), want))
        script = [Split(partition="0", at=20, into=("a",))]
        check_source(lambda want=want: PolledSource(GeneratorSource(lambda i, _: i, count=50, script=script), want))


def test_it_waits_for_enough_and_no_longer_than_said() -> None:
    """Below the least nothing is given, and all is once enough is there; or one has waited for the time."""
    values = list(range(3))
    reader, clock = polled(values, count_min=5, wait_s=2.0)
    assert reader.fetch(100) == Batch(0, (), coming=True)
    values += [3, 4]
    assert reader.fetch(100).values == [0, 1, 2, 3, 4]
    assert reader.fetch(100) == Batch(5, ())
    clock.now = 10.0
    values.append(5)
    assert not reader.fetch(100).values
    clock.now = 11.9
    assert not reader.fetch(100).values
    clock.now = 12.0
    assert reader.fetch(100).values == [5]


def test_the_end_does_not_wait() -> None:
    """What is left at the end is given at once, whatever was wanted."""
    reader = PolledSource(ListSource([1, 2]), Want(count_min=50, wait_s=1e9)).open("0", 0)
    assert reader.fetch(100) == Batch(0, [1, 2], ended=True)
    assert reader.fetch(100) == Batch(2, (), ended=True)


def test_bytes_bound_a_pull_but_never_stop_it() -> None:
    """A pull is within its bytes, and one record that is larger than that comes alone."""
    sizes = [40, 50, 30, 500, 20]
    reader, _ = polled(sizes, bytes_max=100, bytes_of=lambda value: value)
    assert [reader.fetch(100).values for _ in range(4)] == [[40, 50], [30], [500], [20]]
    reader, _clock = polled(sizes, bytes_min=130, wait_s=5.0, bytes_of=lambda value: value)
    assert reader.fetch(2).values == [40, 50]
    assert reader.fetch(1).values == [30]
    assert reader.fetch(100).values == [500, 20]


def test_sizes_are_learnt_from_a_sample() -> None:
    """The estimate is within a few per cent where sizes vary at random, at a fraction of the picklings."""
    source = GeneratorSource(lambda i, random: "x" * random.randrange(1000), count=20_000, seed=5)
    values = source.open("0", 0).fetch(20_000).values
    sizes = Sizes(None)
    for start in range(0, 20_000, 100):
        sizes.learn(values[start : start + 100])
    exact = Sizes(lambda value: len(value) + 15).of(values)
    assert abs(sizes.of(values) / exact - 1) < 0.1
    assert sizes._sampled < len(values) / 50


class Woken(ListSource):
    """A list whose readers say when it has grown."""

    def __init__(self) -> None:
        super().__init__([], follow=True)
        self.wakers: list[Any] = []

    def open(self, partition: str, at: int, /) -> Any:
        reader: Any = super().open(partition, at)
        kind = type("WokenReader", (type(reader),), {"on_available": lambda _, wake: self.wakers.append(wake)})
        reader.__class__ = kind
        return reader


def test_hosts_are_told_when_to_look() -> None:
    """Nobody wakes us: less and less often. Somebody does: never, but for what waits."""
    reader, clock = polled(values := [], count_min=2, wait_s=5.0)
    looks = []
    for _ in range(6):
        reader.fetch(10)
        looks.append(reader.next_look_s())
    assert looks == sorted(looks)
    assert looks[0] < looks[-1] == 0.25
    values.append(1)
    reader.fetch(10)
    assert reader.next_look_s() < 0.25
    clock.now = 4.99
    assert reader.next_look_s() <= 0.02
    woken = Woken()
    waking: Any = PolledSource(woken, Want(count_min=2, wait_s=5.0), clock=clock).open("0", 0)
    assert isinstance(waking, Waking)
    assert not isinstance(reader, Waking)
    waking.on_available(lambda: None)
    assert len(woken.wakers) == 1
    assert not waking.fetch(10).values
    assert waking.next_look_s() is None
    woken._sequences["0"].append(1)  # type: ignore[attr-defined]
    assert not waking.fetch(10).values
    assert waking.next_look_s() == 5.0


def test_what_the_source_can_do_it_still_can() -> None:
    """It lists, bounds and finds if the source within does, and not otherwise."""
    source: Any = PolledSource(GeneratorSource(lambda i, _: i, count=5, timestamp=float), Want())
    assert isinstance(source, Listed)
    assert isinstance(source, Bounded)
    assert isinstance(source, Findable)
    assert (source.bounds("0"), source.find("0", 2.5), source.timestamp(3)) == ((0, 5), 3, 3.0)
    assert not isinstance(PolledSource(ListSource([]), Want()), Listed)


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(1, 4), st.booleans(), st.integers(1, 6))
def test_evaluators_lose_nothing_by_waiting(growth: list[int], count_min: int, crash: bool, count_max: int) -> None:
    """However the input grows, and with replays of turns that were cut otherwise: each value once, and none for ever
    held back."""
    values: list[int] = []
    clock, store = Clock(), MemoryStore()

    def start(store: MemoryStore) -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
        want = Want(count_min=min(count_min, count_max), count_max=count_max, wait_s=1.0)
        evaluator.source("s", PolledSource(ListSource(values, follow=True), want, clock=clock))
        evaluator.create("seen", rx.source("s").map(lambda value: value))
        return evaluator

    evaluator = start(store)
    for count in growth:
        values += range(len(values), len(values) + count)
        evaluator.step()
        clock.now += 0.3
    if crash:
        evaluator = start(store.reopen())
    for _ in range(len(values) + 5):
        clock.now += 1.1
        evaluator.step()
    assert [value for part in evaluator.stream("seen").read(0, 1000) for value in part.values] == values


def test_what_is_refused() -> None:
    """A want whose least is above its most could never be met."""
    for want in ({"count_min": 0}, {"count_min": 5, "count_max": 4}, {"bytes_min": 5, "bytes_max": 4}, {"wait_s": -1}):
        with pytest.raises(ValueError, match="the least is one record"):
            Want(**want)  # type: ignore[arg-type]


def test_an_evaluator_says_when_to_look_again() -> None:
    """A source that wakes needs no looks, one that does not fewer and fewer; what cannot be taken yet is looked at."""
    pushed = QueryEvaluator(MemoryStore(), background=False)
    pushed.push("s")
    pushed.start()
    pushed.step()
    assert pushed.intake.next_look_s() is None
    plain = QueryEvaluator(MemoryStore(), background=False)
    plain.source("s", ListSource(values := [], follow=True))
    plain.start()
    plain.step()
    first = plain.intake.next_look_s()
    assert first is not None
    assert 0 < first <= 0.02
    plain.intake.look_at -= 1.0
    plain.step()
    assert plain.intake.look_at - monotonic() > 0.02
    values.append(1)
    plain.intake.order[0].fill(1)
    assert plain.intake.next_look_s() == 0.02
    assert plain.step()
    assert not plain.step()
    assert plain.intake.next_look_s() <= 0.02  # type: ignore[operator]
