"""Whatever a method of a source raises or returns, one error names the source, and a mended one goes on behind it."""

from __future__ import annotations

from typing import Any, cast

import numpy
import pytest
from lanes import crossed

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx.class_of import is_a
from reliable_rx.errors import SourceFailed
from reliable_rx.reliable import Batch, Rejected
from reliable_rx.testing import hostile

COUNT, FAILS_AT = 20, 12
ERRORS = {each.name: each for each in hostile.ERRORS if is_a(each.make(), Exception)}
"""What else is raised may be the program's way to end, out of a signal's handler, and comes as it is."""
METHODS = ("partitions", "open", "fetch")


class Away(Batch):
    """A batch of a class of its own, whose error cannot be had."""

    __slots__ = ()

    def __init__(self, first: int, values: Any) -> None:
        for name, value in {"first": first, "values": values, "ended": False, "skipped": 0, "rejected": ()}.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise ConnectionError("away")


RETURNED: dict[str, tuple[str, Any, str]] = {
    "no reader": ("open", None, "a return is missing"),
    "something else": ("open", 3, "no method fetch"),
    "a reader that cannot close": ("open", type("R", (), {"fetch": print, "acknowledge": print})(), "no method close"),
    "no batch": ("fetch", None, "fetch returned NoneType in the place of a Batch"),
    "a list": ("fetch", [1, 2], "fetch returned list in the place of a Batch"),
    "no list of partitions": ("partitions", None, "partitions raised TypeError"),
    "an id that is none": ("fetch", Batch(cast(Any, "a"), [1]), "whose first id is 'a', and no int"),
    "an error that is none": ("fetch", Batch(FAILS_AT, [], error=cast(Any, "no")), "is 'no', and no Exception"),
    "no number": ("fetch", Batch(FAILS_AT, [], skipped=cast(Any, "a")), "whose skipped is 'a', and no int"),
    "no records": ("fetch", Batch(FAILS_AT, [], rejected=cast(Any, 3)), "is 3, and no tuple of Rejected"),
    "no record": ("fetch", Batch(FAILS_AT, [], rejected=cast(Any, ("a",))), "is ('a',), and no tuple of Rejected"),
    "no id of a record": ("fetch", Batch(FAILS_AT, [], rejected=(Rejected(cast(Any, "a"), 0, ""),)), "no tuple of Rej"),
    "another id": ("fetch", Batch(FAILS_AT, [], rejected=(Rejected(FAILS_AT, "a", ""),)), "no tuple of Rejected of sk"),
    "a batch that raises": ("fetch", Away(FAILS_AT, []), "its fetch raised ConnectionError: away"),
    "no truth": ("fetch", Batch(FAILS_AT, [], ended=cast(Any, numpy.array([1, 2]))), "and no bools"),
    "no truth of more": ("fetch", Batch(FAILS_AT, [], coming=cast(Any, numpy.array([1, 2]))), "and no bools"),
    "no values": ("fetch", Batch(FAILS_AT, cast(Any, None)), "partition 'p': its batch raised"),
}
"""By what a method returns: which, what, and what is said of it."""


class Own:
    """A source of an app's own: one of its methods does *what*, `fetch` at id `FAILS_AT`."""

    def __init__(self, method: str = "", what: Any = None) -> None:
        self.method, self.what = method, what

    def partitions(self) -> Any:
        return self.what() if self.method == "partitions" else ["p"]

    def open(self, partition: str, at: int, /) -> Any:
        return self.what() if self.method == "open" else OwnReader(self, at)


class OwnReader:
    """Reads numbers, three at a time."""

    def __init__(self, source: Own, at: int) -> None:
        self.source, self.at = source, at

    def fetch(self, count_max: int, /) -> Any:
        if self.at >= FAILS_AT and self.source.method == "fetch":
            return self.source.what()
        first, self.at = self.at, min(self.at + min(3, count_max), COUNT)
        return Batch(first, range(first, self.at), ended=self.at == COUNT)

    def acknowledge(self, n: int, /) -> None: ...

    def close(self) -> None:
        if self.source.method == "close":
            self.source.what()


def run(store: MemoryStore, source: Any) -> list[int]:
    """Run it beside a healthy one as far as it goes, and return what came of it."""
    with QueryEvaluator(store, background=False, batch_events_max=3) as evaluator:
        evaluator.source("n", ListSource(range(COUNT)))
        evaluator.source("own", source)
        evaluator.create("all", rx.source("n"))
        evaluator.create("of own", rx.source("own"))
        evaluator.run()
        assert [value for part in evaluator.stream("all").read(0, 99) for value in part.values] == [*range(COUNT)]
        return [value for part in evaluator.stream("of own").read(0, 99) for value in part.values]


def check(method: str, what: Any, said: str) -> None:
    """Have a run end by what *method* does, then one with a mended source go on."""
    store = MemoryStore()
    with pytest.raises(SourceFailed) as found:
        run(store, Own(method, what))
    assert found.value.fields["source"] == "own" and "'own'" in str(found.value) and said in str(found.value)
    assert run(store.reopen(), Own()) == [*range(COUNT)]


@pytest.mark.parametrize("name, method", crossed(ERRORS, [*METHODS, "close"]))
def test_whatever_a_method_raises_names_its_source(name: str, method: str) -> None:
    """And the next start goes on with the first event that this one has not had."""

    def raises() -> Any:
        raise ERRORS[name].make()

    check(method, raises, f"its {method} raised ")


@pytest.mark.parametrize("returned", RETURNED)
def test_what_is_returned_in_the_place_of_something_else_is_named(returned: str) -> None:
    """By one error, which says what is wanted."""
    method, what, said = RETURNED[returned]
    check(method, lambda: what, said)


@pytest.mark.parametrize("policy", ["fail", "skip"])
@pytest.mark.parametrize("time_of", [None, float])
def test_values_that_raise_when_they_are_read_name_their_source(policy: Any, time_of: Any) -> None:
    """Also where each is looked at by itself, as its time may be unreadable."""

    class Raising(list[int]):
        def __iter__(self) -> Any:
            raise ConnectionError("away")

    class Held(Own):
        on_bad_record, timestamp = policy, time_of

    source = Held("fetch", lambda: Batch(FAILS_AT - 1, Raising([FAILS_AT - 1, FAILS_AT])))
    with QueryEvaluator(MemoryStore(), background=False, batch_events_max=3) as evaluator:
        evaluator.source("own", source)
        evaluator.create("of own", rx.source("own"))
        with pytest.raises(SourceFailed, match="source 'own', partition 'p': its batch raised ConnectionError: away"):
            evaluator.run()


def test_a_reader_that_gives_what_it_has_given_is_named() -> None:
    """In what the source waits for; it may do so for a while, as one does that is asked too early."""

    class Again(Own):
        looks = 0

        def again(self) -> Batch:
            self.looks += 1
            self.method = "" if self.looks == 50 else "fetch"
            return Batch(FAILS_AT - 5, [1, 2, 3])

    source, said = Again("fetch"), set[str]()
    source.what = source.again
    with QueryEvaluator(MemoryStore(), background=False, batch_events_max=3) as evaluator:
        evaluator.source("own", source)
        evaluator.create("of own", rx.source("own"))
        evaluator.run(until=lambda: bool(said.update(why for _, why in evaluator.intake.troubles() if why)))
        assert [value for part in evaluator.stream("of own").read(0, 99) for value in part.values] == [*range(COUNT)]
        assert not [why for _, why in evaluator.intake.troubles() if why]
    assert said == {
        "the reader of partition 'p' gives ids 7 to 9 again and again, where 12 is wanted: it is to go on behind what "
        "it has returned"
    }


def away() -> Batch:
    raise ConnectionError("away")


@pytest.mark.parametrize(
    "away",
    [
        away,
        lambda: Batch(FAILS_AT, []),
        lambda: Batch(FAILS_AT, [], coming=True),
        lambda: Batch(FAILS_AT - 1, [FAILS_AT - 1]),
        lambda: Batch(FAILS_AT, [], ended=True),
    ],
    ids=["raises", "waits", "comes", "repeats itself", "ends otherwise"],
)
def test_how_a_source_has_ended_is_in_the_journal(away: Any) -> None:
    """Whatever it says when it is asked again: a start behind a kill has the end that there was."""

    def end() -> Batch:
        return Batch(FAILS_AT, [], error=ValueError("it is broken"))

    store, said = MemoryStore(), list[Any]()
    for what in (end, away, end):
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
        try:
            evaluator.source("own", Own("fetch", what))
            evaluator.create("of own", rx.source("own"))
            evaluator.start()
            while evaluator.step():
                pass
            said.append((evaluator.query("of own").status, str(evaluator.query("of own").error)))
        finally:
            evaluator.flush()
            evaluator.abandon()
        store = store.reopen()
    assert said == [("failed", "ValueError: it is broken")] * 3


def test_whoever_ends_the_program_while_a_source_is_asked_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    """A handler of a signal may exit, and so may a source; the log says where."""

    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit) as left:
        run(MemoryStore(), Own("fetch", leave))
    assert left.value.code == 3 and "source 'own', partition 'p': its fetch raised SystemExit: 3" in caplog.text


@pytest.mark.parametrize("values", [numpy.array, iter, tuple, dict.fromkeys])
@pytest.mark.parametrize("number", [int, numpy.int64])
def test_values_may_come_in_any_way(values: Any, number: Any) -> None:
    """They need not be false when there are none, nor have a length; ids may be those of an array."""

    class Arrays(OwnReader):
        def fetch(self, count_max: int, /) -> Any:
            batch = super().fetch(count_max)
            return Batch(number(batch.first), values(batch.values), ended=batch.ended)

    class OfArrays(Own):
        def open(self, partition: str, at: int, /) -> Any:
            return Arrays(self, at)

    assert run(MemoryStore(), OfArrays()) == [*range(COUNT)]


def test_a_reader_may_begin_before_the_id_that_it_is_opened_at() -> None:
    """What has been read is left out, however many batches that takes."""

    class FromTheStart(Own):
        def open(self, partition: str, at: int, /) -> Any:
            return OwnReader(self, 0)

    store = MemoryStore()
    with pytest.raises(SourceFailed):
        run(store, Own("fetch", lambda: 1 / 0))
    assert run(store.reopen(), FromTheStart()) == [*range(COUNT)]


def test_a_replay_bears_a_reader_that_begins_at_the_start() -> None:
    """A kill behind a checkpoint: its reader brings what the checkpoint has before what the journal asks for."""

    class FromTheStart(Own):
        def open(self, partition: str, at: int, /) -> Any:
            return OwnReader(self, 0)

    store = MemoryStore()
    for kept, taken in ((6, 12), (0, COUNT)):
        with QueryEvaluator(store, background=False, batch_events_max=3, checkpoint_interval_s=1e9) as evaluator:
            evaluator.source("own", FromTheStart())
            evaluator.create("of own", rx.source("own"))
            evaluator.start()
            while evaluator.stream("of own").visible < kept and evaluator.step():
                pass
            evaluator.checkpoint() if kept else None
            while evaluator.stream("of own").visible < taken and evaluator.step():
                pass
            found = [value for part in evaluator.stream("of own").read(0, 99) for value in part.values]
            assert found == [*range(len(found))] and len(found) >= taken
            evaluator.flush()
            evaluator.abandon()
        store = store.reopen()


def test_a_source_that_waits_is_no_failure() -> None:
    """As the remedy says: nothing comes for a while, and then it does."""

    class Waiting(Own):
        looks = 0

        def wait(self) -> Batch:
            self.looks += 1
            self.method = "" if self.looks == 50 else "fetch"
            return Batch(FAILS_AT, [])

    source = Waiting("fetch")
    source.what = source.wait
    assert run(MemoryStore(), source) == [*range(COUNT)]
