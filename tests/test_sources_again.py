"""Sources behind a start: their ends are the same as before it, and readers may take their time or begin too early."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from checkpoint.format.stored_errors import ERROR_BYTES_MAX
from hosting import ListSource, QueryEvaluator
from hosting.sources.polling import PolledSource, Want
from reliable_rx.errors import PositionUnavailable
from reliable_rx.reliable import Batch, Rejected

COUNT = 30
Patterned = Callable[["Reader"], Batch | None]


class Source:
    """Numbers, three at a time; a reader may begin at 0, *before* says what it gives instead, and *error* ends it."""

    def __init__(
        self, *, before: Patterned = lambda _: None, at_zero: bool = False, error: Callable[[], Any] | None = None
    ) -> None:
        self.before, self.at_zero, self.error = before, at_zero, error

    def partitions(self) -> list[str]:
        return ["p"]

    def open(self, partition: str, at: int, /) -> Any:
        return Reader(self, 0 if self.at_zero else at)


class Reader:
    def __init__(self, source: Source, at: int) -> None:
        self.source, self.at, self.looks = source, at, 0

    def fetch(self, count_max: int, /) -> Batch:
        self.looks += 1
        if (instead := self.source.before(self)) is not None:
            return instead
        first, self.at = self.at, min(self.at + min(3, count_max), COUNT)
        is_over = self.at == COUNT
        error = self.source.error() if is_over and self.source.error is not None else None
        return Batch(first, range(first, self.at), ended=is_over and error is None, error=error)

    def acknowledge(self, n: int, /) -> None: ...

    def close(self) -> None: ...


class Slotted(Exception):
    __slots__ = ("code",)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = 5


class Token:
    """Known by identity."""


TOKEN = Token()


class Holding(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.token = TOKEN


def raised(error: BaseException, cause: BaseException | None = None) -> Any:
    try:
        raise error from cause
    except BaseException as caught:
        return caught


def unnamed() -> Any:
    try:
        return undefined_name  # type: ignore[name-defined]
    except NameError as error:
        return error


ERRORS: dict[str, Callable[[], Any]] = {
    "made": lambda: ValueError("broken"),
    "raised": lambda: raised(ValueError("broken")),
    "with a cause": lambda: raised(ValueError("broken"), raised(KeyError("inner"))),
    "slots": lambda: Slotted("broken"),
    "an identity": lambda: Holding("broken"),
    "a name": unnamed,
    "a group": lambda: raised(ExceptionGroup("broken", [raised(ValueError("one")), KeyError("two")])),
    "too long": lambda: ValueError("broken", "x" * ERROR_BYTES_MAX),
    "a note": lambda: noted(ValueError("broken")),
}


def noted(error: Exception) -> Exception:
    error.add_note("a note")
    return error


ASKED: dict[str, Callable[[Any], Any]] = {
    "type": lambda error: type(error).__name__,
    "text": str,
    "attributes": lambda error: sorted(
        (name, value) for name, value in vars(error).items() if value is not TOKEN and name != "token"
    ),
    "traceback": lambda error: error.__traceback__ is None,
    "formatted": lambda error: "".join(traceback.format_exception(error)),
    "code": lambda error: getattr(error, "code", None),
    "identity": lambda error: getattr(error, "token", None) is TOKEN,
    "name": lambda error: getattr(error, "name", None),
    "led": lambda error: (repr(error.__cause__), repr(error.__context__), error.__suppress_context__),
}


def asking(ask: Callable[[Any], Any]) -> Callable[[Exception, Any], Any]:
    return lambda error, source: rx.just(repr(ask(error)))


@pytest.mark.parametrize("kind", ERRORS)
def test_an_end_is_the_same_behind_a_start(kind: str) -> None:
    """Whatever a handler asks of the error with which its source has ended; a long one is what it said."""
    found, store = list[Any](), MemoryStore()
    for _ in range(2):
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
        try:
            evaluator.source("s", Source(error=ERRORS[kind]))
            for name, ask in ASKED.items():
                evaluator.create(name, rx.source("s").catch(asking(ask)))
            evaluator.create("fails", rx.source("s"))
            evaluator.start()
            while evaluator.step():
                pass
            found.append({name: (evaluator.query(name).status, outputs(evaluator, name)) for name in [*ASKED, "fails"]})
            assert not evaluator.warnings
        finally:
            evaluator.flush()
            evaluator.abandon()
        store = store.reopen()
    assert found[0] == found[1]
    assert found[0]["fails"][0] == "failed" and {found[0][name][0] for name in ASKED} == {"completed"}
    assert len(found[0]["text"][1][-1]) < ERROR_BYTES_MAX


def outputs(evaluator: QueryEvaluator, name: str) -> list[Any]:
    return [value for part in evaluator.stream(name).read(0, 99_999) for value in part.values]


QUIET: dict[str, Patterned] = {
    "at first": lambda reader: Batch(reader.at, []) if reader.looks == 1 else None,
    "now and then": lambda reader: Batch(reader.at, []) if reader.looks % 2 == 0 else None,
    "mostly": lambda reader: Batch(reader.at, []) if reader.looks % 5 else None,
}


@pytest.mark.parametrize("at_zero", [False, True])
@pytest.mark.parametrize("saved", [None, 4])
@pytest.mark.parametrize("pattern", QUIET)
def test_a_replay_waits_for_a_reader_that_has_nothing_yet(pattern: str, saved: int | None, at_zero: bool) -> None:
    """An empty batch says that nothing is there, and not that nothing will be."""
    store = MemoryStore()
    for steps in (24, 99):
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9, batch_events_max=3)
        try:
            evaluator.source("s", Source(before=QUIET[pattern], at_zero=at_zero))
            evaluator.create("q", rx.source("s"))
            evaluator.start()
            for step in range(steps):
                evaluator.step()
                if step == saved:
                    evaluator.checkpoint()
            found = outputs(evaluator, "q")
            assert found == [*range(len(found))] and found
        finally:
            evaluator.flush()
            evaluator.abandon()
        store = store.reopen()
    assert len(found) == COUNT


@pytest.mark.parametrize("known", [[COUNT // 3 - 1], [*range(COUNT // 3)], [0, 1]])
def test_a_replay_ends_for_a_reader_that_gives_known_ids_now_and_then(
    known: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it gives again, with nothing in between, is no way to what is lacking."""
    monkeypatch.setattr("hosting.edges.partition_replay.QUIET_S", 0.05)
    store = MemoryStore()

    def lacking(reader: Reader) -> Batch | None:
        if reader.at < COUNT // 3:
            return None
        return Batch(known[0], known) if reader.looks % 2 else Batch(reader.at, [])

    for before in (lambda _: None, lacking):
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9, batch_events_max=3)
        try:
            evaluator.source("s", Source(before=before))
            evaluator.create("q", rx.source("s"))
            if before is lacking:
                with pytest.raises(PositionUnavailable, match="gives only"):
                    evaluator.start()
                break
            evaluator.start()
            for _ in range(9):
                evaluator.step()
        finally:
            evaluator.flush()
            evaluator.abandon()
        store = store.reopen()


def test_a_partition_that_gives_known_ids_now_and_then_is_idle() -> None:
    """On event time it holds nobody back for longer than one that gives nothing."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.1
        return now

    def again(reader: Reader) -> Batch | None:
        if reader.at < 3:
            return None
        return Batch(0, [0]) if reader.looks % 3 == 0 else Batch(reader.at, [])

    class Timed(Source):
        timestamp = float

    with QueryEvaluator(MemoryStore(), background=False, clock=clock, idle_s=3.0) as evaluator:
        evaluator.source("a", Timed(before=again))
        evaluator.source("b", Timed())
        evaluator.create("q", rx.source("b"))
        evaluator.start()
        for _ in range(200):
            evaluator.step()
        assert outputs(evaluator, "q") == [*range(COUNT)]


LOGS = ["gbv", "bgv", "bgbv", "gb", "bv", "gvgv", "vgbgbgv", "vbbbbv"]
"""Of each id: compacted, a record that cannot be read, or a value."""


class Cut(Source):
    """A log that is read so many ids at a time as the reader is told, another number in each run."""

    on_bad_record = "dead_letter"

    def __init__(self, log: str, cuts: list[int]) -> None:
        super().__init__()
        self.log, self.cuts = log, cuts

    def open(self, partition: str, at: int, /) -> Any:
        return CutReader(self, at)


class CutReader(Reader):
    def fetch(self, count_max: int, /) -> Batch:
        source: Any = self.source
        begun, end = self.at, next((cut for cut in source.cuts if cut > self.at), len(source.log))
        first = next((n for n in range(begun, end) if source.log[n] == "v"), end)
        self.at = next((n for n in range(first, end) if source.log[n] != "v"), end)
        bad = [Rejected(n, n, "no") for n in range(begun, first) if source.log[n] == "b"]
        bad = sorted(bad, key=lambda each: each.position % 3)  # they may come in any order
        is_over = self.at == len(source.log)
        return Batch(first, [*range(first, self.at)], ended=is_over, skipped=first - begun, rejected=tuple(bad))


def cuts_of(log: str) -> list[list[int]]:
    return [[n + 1 for n in range(len(log)) if which >> n & 1] for which in range(2 ** (len(log) - 1))]


@pytest.mark.parametrize("log", LOGS)
def test_a_log_may_be_cut_into_batches_in_any_way(log: str) -> None:
    """Behind a kill as before it: gaps and records that cannot be read come together or apart; each is told of once."""
    ways = cuts_of(log)
    for before in ways[:: max(1, len(ways) // 8)]:
        for behind in ways[:: max(1, len(ways) // 8)]:
            store, found = MemoryStore(), list[Any]()
            for cuts in (before, behind):
                evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
                try:
                    evaluator.source("s", Cut(log, cuts))
                    evaluator.create("q", rx.source("s"))
                    evaluator.create("letters", rx.source("s.dead_letters").map(lambda letter: letter.position))
                    evaluator.run()
                    letters = outputs(evaluator, "letters")
                    assert letters == [n for n, kind in enumerate(log) if kind == "b"]
                    found.append((outputs(evaluator, "q"), evaluator.query("q").status))
                finally:
                    evaluator.flush()
                    evaluator.abandon()
                store = store.reopen()
            assert found[0] == found[1], (log, before, behind)


def test_a_turn_whose_records_are_others_now_is_refused() -> None:
    """Not waited for: what is there lies behind what the journal has."""
    store = MemoryStore()
    for log, refuses in (("bvv", False), ("gvb", True)):
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
        try:
            evaluator.source("s", Cut(log, []))
            evaluator.create("q", rx.source("s"))
            if refuses:
                with pytest.raises(PositionUnavailable, match="1 record that could not be read, before id 1"):
                    evaluator.start()
                break
            evaluator.run()
        finally:
            evaluator.flush()
            evaluator.abandon()
        store = store.reopen()


def test_a_reader_on_event_time_may_go_over_ids_that_hold_nothing() -> None:
    """However long that takes, it is not silent."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1.0
        return now

    def skips(reader: Reader) -> Batch | None:
        if 3 <= reader.at < 20:
            reader.at += 1
            return Batch(reader.at, [], skipped=1)
        return None

    class Timed(Source):
        timestamp = float

    with QueryEvaluator(MemoryStore(), background=False, clock=clock, idle_s=3.0) as evaluator:
        evaluator.source("a", Timed(before=skips))
        evaluator.source("b", Timed())
        evaluator.create("q", rx.merge(rx.source("a"), rx.source("b")))
        evaluator.run()
        found = outputs(evaluator, "q")
    assert found == sorted(found) and len(found) == 2 * COUNT - 17


GAPS: list[list[Batch]] = [
    [Batch(0, ["a"]), Batch(3, [], skipped=2), Batch(5, ["b"], skipped=2, rejected=(Rejected(4, "x", "no"),))],
    [Batch(0, ["a"]), Batch(5, ["b"], skipped=4, rejected=(Rejected(4, "x", "no"),))],
    [
        Batch(0, ["a"]),
        Batch(5, [], skipped=4, rejected=(Rejected(1, "x", "no"), Rejected(4, "y", "no"))),
        Batch(5, "b"),
    ],
    [Batch(2, [], skipped=2), Batch(4, [], skipped=2, rejected=(Rejected(3, "x", "no"),)), Batch(4, ["b"])],
]


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
@pytest.mark.parametrize("batches", GAPS)
def test_gaps_before_what_cannot_be_read_are_gone_over_again(batches: list[Batch], policy: str) -> None:
    """The journal has no turn of a gap, whichever batch it comes in."""

    class Gaps(Source):
        on_bad_record = policy

    def given(reader: Reader) -> Batch:
        found = next((each for each in batches if each.first - each.skipped >= reader.at), None)
        reader.at = COUNT if found is None else found.next
        return Batch(max(each.next for each in batches), [], ended=True) if found is None else found

    store, found = MemoryStore(), list[Any]()
    for _ in range(2):
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
        try:
            evaluator.source("s", Gaps(before=given))
            evaluator.create("q", rx.source("s"))
            evaluator.run()
            found.append((outputs(evaluator, "q"), evaluator.query("q").status, evaluator.intake.bad_records.counts))
        finally:
            evaluator.flush()
            evaluator.abandon()
        store = store.reopen()
    assert found[0] == found[1] and found[0][1] == "completed" and "b" in found[0][0]


class Page(Batch):
    """A batch with a constructor of its own."""

    __slots__ = ()

    def __init__(self, first: int, *, error: Exception | None = None) -> None:
        super().__init__(first, iter([]), error=error)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrap", [lambda source: source, lambda source: PolledSource(source, Want(wait_s=0.0))])
def test_a_batch_may_be_of_a_class_of_its_own(wrap: Any) -> None:
    """Nothing makes another one of it."""

    def given(reader: Reader) -> Batch | None:
        return Page(6, error=ValueError("broken")) if reader.at == 6 else None

    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("s", wrap(Source(before=given)))
        evaluator.create("q", rx.source("s"))
        evaluator.run()
        assert (outputs(evaluator, "q"), evaluator.query("q").error) == ([*range(6)], "ValueError: broken")


def test_a_reader_that_finds_its_way_is_not_idle() -> None:
    """On event time others wait for it, however long its host's clock says that this takes; then all are in order."""

    class Both(Source):
        timestamp = float

        def partitions(self) -> list[str]:
            return ["0", "1"]

        def open(self, partition: str, at: int, /) -> Any:
            return Times(self, 0 if partition == "0" else at, int(partition))

    class Times(Reader):
        def __init__(self, source: Source, at: int, part: int) -> None:
            super().__init__(source, at)
            self.part = part

        def fetch(self, count_max: int, /) -> Batch:
            first, self.at = self.at, min(self.at + (1 if self.part == 0 else COUNT), COUNT)
            return Batch(first, [2 * n + self.part for n in range(first, self.at)], ended=self.at == COUNT)

    store, now = MemoryStore(), 0.0

    def clock() -> float:
        nonlocal now
        now += 1.0
        return now

    for visible in (20, 2 * COUNT):
        with QueryEvaluator(store, background=False, clock=clock, idle_s=3.0, batch_events_max=3) as evaluator:
            evaluator.source("s", Both())
            evaluator.create("q", rx.source("s"))
            evaluator.run(until=lambda: evaluator.stream("q").visible >= visible)
            found = outputs(evaluator, "q")
        store = store.reopen()
    assert found == [*range(2 * COUNT)]


def test_what_a_reader_waited_for_is_over_when_it_goes_on() -> None:
    """Also if what it brings begins with something known."""

    def again(reader: Reader) -> Batch | None:
        if 5 < reader.looks < 20:
            return Batch(2, [2, 3, 4])
        if reader.looks >= 20 and reader.at < COUNT:
            reader.at += 1
            return Batch(reader.at - 2, [reader.at - 2, reader.at - 1])
        return None

    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("s", Source(before=again))
        evaluator.create("q", rx.source("s"))
        evaluator.start()
        said = list[str]()
        for _ in range(40):
            evaluator.step()
            said.append(next(why for _, why in evaluator.intake.troubles()))
        assert outputs(evaluator, "q") == [*range(COUNT)]
    assert "gives ids 2 to 4 again and again, where 15 is wanted" in "".join(said) and not said[-1]


BEHIND: dict[str, Callable[[], Batch]] = {
    "values": lambda: Batch(COUNT, [COUNT]),
    "skipped": lambda: Batch(COUNT + 5, [], skipped=5),
    "a gap": lambda: Batch(COUNT + 5, [1]),
    "no batch": lambda: None,  # type: ignore[return-value]
}


@pytest.mark.parametrize("behind", BEHIND)
def test_what_lies_behind_a_journalled_end_is_left_alone(behind: str) -> None:
    """The partition stays where it has ended, and nothing is waited for."""
    store = MemoryStore()

    def more(reader: Reader) -> Batch | None:
        if reader.at == COUNT:
            return BEHIND[behind]()
        first, reader.at = reader.at, min(reader.at + 3, COUNT)
        return Batch(first, range(first, reader.at))

    for before in (lambda _: None, more):
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
        try:
            evaluator.source("s", Source(before=before))
            evaluator.create("q", rx.source("s"))
            evaluator.start()
            while evaluator.step():
                pass
            assert (outputs(evaluator, "q"), evaluator.query("q").status) == ([*range(COUNT)], "completed")
            assert evaluator.intake.positions() == {("s", "p"): COUNT} and evaluator.intake.next_look_s() is None
        finally:
            evaluator.flush()
            evaluator.abandon()
        store = store.reopen()


def test_positions_are_numbers_of_python() -> None:
    """Whatever numbers ids are, and where some are skipped."""

    def skips(reader: Reader) -> Batch | None:
        if reader.at == 6:
            reader.at = 9
            return Batch(numpy.int64(9), [], skipped=3)  # type: ignore[arg-type]
        return None

    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("s", Source(before=skips))
        evaluator.create("q", rx.source("s"))
        evaluator.start()
        for _ in range(4):
            evaluator.step()
            assert all(type(position) is int for position in evaluator.intake.positions().values())
        assert outputs(evaluator, "q") == [*range(6), *range(9, len(outputs(evaluator, "q")) + 3)]


@pytest.mark.parametrize("values", [iter, tuple, numpy.array])
def test_a_polled_source_may_give_values_in_any_way(values: Any) -> None:
    """An iterator is true also when it has nothing, and has no length."""

    def given(reader: Reader) -> Batch | None:
        first, reader.at = reader.at, min(reader.at + 3, 12)
        return Batch(first, values([*range(first, reader.at)]))

    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("s", PolledSource(Source(before=given), Want(wait_s=0.0)))
        evaluator.source("n", ListSource(range(5)))
        evaluator.create("q", rx.source("s"))
        evaluator.create("other", rx.source("n"))
        evaluator.run(until=lambda: evaluator.stream("q").visible >= 12)
        assert (outputs(evaluator, "q"), outputs(evaluator, "other")) == ([*range(12)], [*range(5)])
