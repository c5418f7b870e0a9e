"""What an edit of numbers, durations and inputs does, as examples: what `docs/how-to/edit-a-query.md` tells of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from edited_pairs import keyed, lists
from edited_world import WAYS, Played, play

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator, event_time
from reliable_rx.operators.contract.operator import Context, Linear, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.query.query import apply

a, b, c = rx.source("a"), rx.source("b"), rx.source("c")
IN_EACH_WAY = pytest.mark.parametrize("way", [way for way in WAYS if way != "behind a kill"])


def of_a(before: Any, after: Any, first: int, last: int, way: str = WAYS[0]) -> Played:
    """Play the numbers from 1 to *first* into *before*, and those up to *last* into *after*."""
    numbers = [("a", number) for number in range(1, last + 1)]
    return play(before, after, way, numbers[:first], [*numbers[first:], ("a", None)])


SIZES: dict[str, tuple[Any, Any, int, int, list[Any]]] = {
    "a list that is too long by now closes with what it has": (
        a.buffer_with_count(4), a.buffer_with_count(2), 3, 6, [[1, 2, 3], [4, 5], [6]],
    ),
    "so do lists that overlap": (
        a.buffer_with_count(4, 1), a.buffer_with_count(2, 1), 3, 6, [[1, 2, 3], [2, 3], [3, 4], [4, 5], [5, 6], [6]],
    ),
    "one that is too short goes on": (a.buffer_with_count(2), a.buffer_with_count(4), 1, 6, [[1, 2, 3, 4], [5, 6]]),
    "and a window": (
        lists(a.window_with_count(4)), lists(a.window_with_count(2)), 3, 6, [[1, 2, 3], [4, 5], [6]],
    ),
    "take counts on": (a.take(10), a.take(5), 3, 9, [4, 5]),
    "and has had enough": (a.take(10), a.take(2), 3, 9, []),
    "skip counts on": (a.skip(10), a.skip(4), 3, 6, [5, 6]),
    "or lets pass already": (a.skip(2), a.skip(9), 3, 6, [4, 5, 6]),
    "what is held back comes": (a.skip_last(3), a.skip_last(1), 3, 5, [1, 2, 3, 4]),
    "fewer of the last": (a.take_last(5), a.take_last(2), 3, 6, [5, 6]),
    "more of the last": (a.take_last(2), a.take_last(4), 3, 4, [2, 3, 4]),
    "an element that is still to come": (a.element_at(9), a.element_at(4), 3, 9, [5]),
    "one that has gone by is counted from the edit": (a.element_at(9), a.element_at(1), 3, 9, [5]),
    "a total goes on": (a.scan(lambda t, x: t + x, 0), a.scan(lambda t, x: t + x, 100), 3, 4, [10]),
    "one of another kind begins afresh": (a.scan(lambda t, x: t + x, 0), a.scan(lambda t, x: [*t, x], []), 3, 4, [[4]]),
}  # fmt: skip


@IN_EACH_WAY
@pytest.mark.parametrize("what", SIZES)
def test_another_number_of_elements(what: str, way: str) -> None:
    """What is kept counts on, nothing that is held is lost, and no list grows past its size."""
    before, after, first, last, expected = SIZES[what]
    assert of_a(before, after, first, last, way).after == expected


WINDOWS: dict[str, tuple[Any, Any, int, list[Any]]] = {
    "shorter": (
        a.tumbling_window(10.0), a.tumbling_window(4.0), 3,
        [((0.0, 10.0), [1, 2, 3, 4, 5, 6, 7, 8, 9]), ((8.0, 12.0), [10, 11]), ((12.0, 16.0), [12])],
    ),
    "longer": (a.tumbling_window(5.0), a.tumbling_window(8.0), 3, [((0.0, 5.0), [1, 2, 3, 4]), ((0.0, 8.0), [5, 6, 7]),
        ((8.0, 16.0), [8, 9, 10, 11, 12])]),
    "beginning elsewhere": (
        a.tumbling_window(8.0), a.tumbling_window(8.0, offset_s=3.0), 3,
        [((0.0, 8.0), [1, 2, 3, 4, 5, 6, 7]), ((3.0, 11.0), [8, 9, 10]), ((11.0, 19.0), [11, 12])],
    ),
    "with gaps": (
        a.tumbling_window(8.0), a.sliding_window(2.0, 5.0), 3,
        [((0.0, 8.0), [1, 2, 3, 4, 5, 6, 7]), ((10.0, 12.0), [10, 11])],
    ),
    "that overlapped": (
        a.sliding_window(8.0, 4.0), a.tumbling_window(3.0), 3,
        [((-4.0, 4.0), [1, 2, 3]), ((0.0, 8.0), [1, 2, 3, 4, 5, 6, 7]), ((6.0, 9.0), [8]), ((9.0, 12.0), [9, 10, 11]),
        ((12.0, 15.0), [12])],
    ),
    "that overlap now": (
        a.tumbling_window(10.0), a.sliding_window(6.0, 3.0), 7,
        [((3.0, 9.0), [8]), ((0.0, 10.0), [1, 2, 3, 4, 5, 6, 7, 8, 9]), ((6.0, 12.0), [8, 9, 10, 11]),
        ((9.0, 15.0), [9, 10, 11, 12]), ((12.0, 18.0), [12])],
    ),
}  # fmt: skip


@IN_EACH_WAY
@pytest.mark.parametrize("what", WINDOWS)
def test_a_window_that_is_open_closes_at_its_own_end(what: str, way: str) -> None:
    """It has all that comes until then, unless windows overlap; others begin behind it, and each has its whole key."""
    before, after, first, expected = WINDOWS[what]
    assert of_a(keyed(before), keyed(after), first, 12, way).after == expected


@IN_EACH_WAY
@pytest.mark.parametrize("size_s", [8.0, 3.0])
def test_a_window_that_nobody_reads_any_more_is_not_waited_for(size_s: float, way: str) -> None:
    """An edit has taken away what read it: the next element opens one for what reads windows now."""
    before, after = keyed(a.tumbling_window(8.0)), a.tumbling_window(size_s).concat_map(lambda window: window.to_list())
    assert [each for part in of_a(before, after, 3, 12, way).after for each in part] == [*range(4, 13)]


@pytest.mark.parametrize(("was", "now"), [(20.0, 5.0), (5.0, 20.0), (10.0, 15.0)])
@pytest.mark.parametrize("clock", [None, event_time(float, lateness_s=0.0)], ids=["processing time", "event time"])
def test_windows_of_another_length_split_the_events(clock: Any, was: float, now: float) -> None:
    """Each event is in one window, by the clock of the host and by that of the events."""
    events = [*range(13)]
    evaluator = QueryEvaluator(MemoryStore())
    evaluator.source("a", ListSource(events, follow=True, timestamp=None if clock else float))
    for size_s, until in ((was, 13), (now, 33)):
        events += range(len(events), until)
        evaluator.create("q", lists(a.tumbling_window(size_s)), clock=clock)
        evaluator.run(until=lambda until=until: evaluator.statistics().events_in == until)  # type: ignore[misc]
    found = [each for part in evaluator.stream("q").read(0, 100) for value in part.values for each in value]
    evaluator.close()
    assert found == [*range(len(found))] and len(found) >= 18


def test_windows_by_a_timer_begin_anew_at_the_edit() -> None:
    """Lists and windows of so many seconds close with what they have, and the next begin at once."""
    expected = [[1, 2, 3], [4, 5], [6, 7], []]
    assert of_a(a.buffer_with_time(10.5), a.buffer_with_time(2.5), 3, 7).after == expected
    before, after = lists(a.window_with_time(10.5)), lists(a.window_with_time(2.5))
    assert of_a(before, after, 3, 7).after == expected


PREFIX = [("a", 1), ("b", 10), ("c", 100), ("a", 2)]
READ_FIRST = [("c", 101), ("a", 3), ("c", 102)], [3]
"""What comes while the first input is being read, and what passes."""
INPUTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...], list[Any], list[Any]]] = {
    "a merge with one more": (rx.merge, (a, b), (a, b, c), [("a", None), ("b", None), ("c", 101)], [101]),
    "a merge with one fewer": (rx.merge, (a, b, c), (a, b), [("c", 101), ("a", None), ("b", 11)], [11]),
    "a zip with one more": (rx.zip, (a, b), (a, b, c), [("c", 101), ("b", 11)], [(2, 11, 101)]),
    "a zip with one fewer": (rx.zip, (a, c, b), (a, c), [("c", 101)], [(2, 101)]),
    "a zip of what had waited": (rx.zip, (a, b, rx.never()), (a, b), [], [(1, 10)]),
    "a zip of another": (rx.zip, (a, b), (a, c), [("c", 101)], [(2, 101)]),
    "a zip that is exchanged": (rx.zip, (a, b), (b, a), [("b", 11)], [(11, 2)]),
    "the latest of one more": (rx.combine_latest, (a, b), (a, b, c), [("a", 3), ("c", 101)], [(3, 10, 101)]),
    "the latest, exchanged": (rx.combine_latest, (a, b), (b, a), [("b", 11)], [(11, 2)]),
    "one that had won goes on": (rx.amb, (a, b), (c, b, a), [("b", 11), ("a", 3)], [3]),
    "one that had won is no more": (rx.amb, (a, b), (c, b), [("b", 11), ("c", 101)], [11]),
    "the last of each, exchanged": (rx.fork_join, (a, b), (b, a), [("a", 3), ("a", None), ("b", None)], [(10, 3)]),
    "what is read first, of several": (rx.concat, (a, b), (a, c), *READ_FIRST),
    "what is caught first, of several": (rx.catch, (a, b), (a, c), *READ_FIRST),
    "what is resumed first, of several": (rx.on_error_resume_next, (a, b), (a, c), *READ_FIRST),
    "what is being read": (rx.concat, (a, b), (c, a, b), [("c", 101), ("a", 3), ("a", None), ("b", 11)], [3, 11]),
}


@IN_EACH_WAY
@pytest.mark.parametrize("what", INPUTS)
def test_other_inputs(what: str, way: str) -> None:
    """What is kept of an input goes by what that reads, wherever it is read now."""
    build, was, now, rest, expected = INPUTS[what]
    assert play(build(*was), build(*now), way, PREFIX, rest).after == expected


@IN_EACH_WAY
def test_what_stands_before_an_input_goes_with_it(way: str) -> None:
    """Its state has the path of its new place, and the rows of its groups have, too."""

    def counted(source: Any) -> Any:
        return source.group_by(lambda x: x % 2).flat_map(lambda group: group.scan(lambda n, _: n + 1, 0))

    before, after = rx.merge(counted(a), counted(b)), rx.merge(counted(c), counted(b), counted(a))
    played = play(before, after, way, PREFIX, [("a", 4), ("b", 12), ("c", 8), ("a", 6)])
    assert played.after == [2, 2, 1, 3]
    assert played.report is None or not played.report.dropped


@frozen
class Every(Linear, name="every"):
    """Passes each n-th element: an operator that says nothing of edits."""

    count: int

    @dataclass(slots=True)
    class State:
        seen: int = 0

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        state.seen += 1
        if state.seen == self.count:
            state.seen = 0
            out.append(value)


@frozen
class Together(Stage, name="together"):
    """Emits what all inputs have emitted, when all have ended: another one."""

    @dataclass(slots=True)
    class State:
        items: list[Any] = field(default_factory=list)
        ended: int = 0

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        cx.state.items.append(value)

    def on_completed(self, cx: Context, port: int) -> None:
        cx.state.ended += 1
        if cx.state.ended == len(cx.node.inputs):  # type: ignore[attr-defined]
            cx.emit(cx.state.items)
            cx.complete()


@IN_EACH_WAY
def test_an_operator_that_says_nothing_begins_afresh(way: str) -> None:
    """With other parameters, or another number of inputs; the report says why. One that had ended is not waited for."""
    played = of_a(Every(5)(a), Every(2)(a), 3, 7, way)
    assert played.after == [5, 7] and str(played.report) in ("fresh: /every (other parameters)", "None")
    before, after = apply(Together(), a, b.take(1)), apply(Together(), a, b.take(1), c)
    rest = [("a", 3), ("c", 101), ("a", None), ("c", None)]
    played = play(before, after, way, PREFIX, rest)
    assert (played.after, played.status) == ([[3, 101]], "completed")
    assert played.report is None or "fresh: /together (another number of inputs)" in str(played.report)


def test_a_function_is_no_parameter() -> None:
    """What is kept stays what it was, whatever is asked of the next elements."""
    played = of_a(Every(5)(a.map(lambda x: x)), Every(5)(a.map(lambda x: -x)), 3, 7)
    assert played.after == [-5] and str(played.report) == "kept: /every"


@frozen
class Careless(Stage, name="careless"):
    """Raises where it is asked to go on: at once, or behind that."""

    count: int

    @dataclass(slots=True)
    class State:
        seen: int = 0

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        cx.state.seen += 1
        cx.emit(cx.state.seen)

    def adopt(self, state: State, before: Any) -> bool:
        return 1 // (self.count - 1) >= 0

    def on_adopted(self, cx: Context, before: Any) -> None:
        raise ValueError("over")


def test_an_operator_raises_where_it_is_to_go_on() -> None:
    """It begins afresh, or its query fails: never the engine, which would take that turn again at each start."""
    played = of_a(Careless(5)(a), Careless(1)(a), 3, 4)
    assert played.after == [1]
    assert str(played.report).startswith("fresh: /careless (adopt: ZeroDivisionError")
    assert of_a(Careless(5)(a), Careless(2)(a), 3, 4).status == "failed"


@IN_EACH_WAY
def test_another_source_that_has_ended(way: str) -> None:
    """A query that reads it from the edit on is told of its end, and gives what it has."""
    if way == "by another Python":
        pytest.skip("it is an edit behind the step to another Python")
    played = play(a.merge(c.take(1)).count(), b.merge(c.take(1)).count(), way, [*PREFIX, ("b", None)], [])
    assert (played.after, played.status) == ([3], "completed")
    assert play(a.count(), b.count(), way, [*PREFIX, ("b", None)], []).after == [2]


@IN_EACH_WAY
def test_a_new_input_whose_sources_have_all_ended(way: str) -> None:
    """It goes on to its end by itself, as one that begins does, and what reads it hears of that."""
    before, after = rx.merge(a, b), rx.merge(a, b.zip(rx.concat(c, c, c)))
    played = play(before, after, way, [*PREFIX, ("c", None)], [("a", 3), ("b", 11), ("a", None)])
    assert (played.after, played.status) == ([3], "completed")


BEGUN: dict[str, tuple[Any, Any, list[Any], list[Any]]] = {
    "a function behind what has had enough": (
        rx.merge(a.take(1), b), rx.merge(a.take(1).map(lambda x: x), b), [11, 12], [11, 12],
    ),
    "and one more": (
        rx.merge(a.take(1), b), rx.merge(a.take(1).map(lambda x: x), b, c), [11, 100, 12], [11, 100, 12],
    ),
    "what had ended it is gone, and one more": (
        rx.merge(a.take(1), b), rx.merge(a, b, c), [3, 11, 100, 12], [11, 100, 12],
    ),
    "it is gone, and they are exchanged": (rx.merge(a.take(1), b), rx.merge(b, a), [3, 11, 12], [11, 12]),
    "one that ends at once": (rx.merge(a, b), rx.merge(a, rx.of(9), b), [9, 3, 11, 12], [9, 3, 11, 12]),
    "one that begins at once": (
        rx.zip(a, b), rx.zip(a, b, c.start_with(9)), [(2, 11, 9), (3, 12, 100)], [(2, 11, 9), (3, 12, 100)],
    ),
    "one that has had its turn": (rx.concat(a.take(1), b), rx.concat(c, a, b), [11, 12], [11, 12]),
    "one that is to have its turn": (rx.concat(a, b), rx.concat(a, c.start_with(9), b), [3, 9], [3, 9]),
    "in each sequence, exchanged": (
        a.take(1).flat_map(lambda x: rx.merge(b.take(1), c)), a.take(1).flat_map(lambda x: rx.merge(c, b)),
        [11, 100, 12], [100],
    ),
}  # fmt: skip
"""Inputs that begin, or begin again, beside others: before, after, what comes, and what by another Python."""


@IN_EACH_WAY
@pytest.mark.parametrize("what", BEGUN)
def test_an_input_is_counted_once(what: str, way: str) -> None:
    """Be it another one, read again, or at its end at once: its operator ends when all have, and not before."""
    before, after, expected, elsewhere = BEGUN[what]
    rest = [("a", 3), ("b", 11), ("c", 100), ("a", None), ("b", 12), ("b", None), ("c", None)]
    played = play(before, after, way, [("a", 1), ("b", 10), ("a", 2)], rest)
    assert (played.after, played.status) == (elsewhere if way == WAYS[-1] else expected, "completed")


@IN_EACH_WAY
def test_an_operator_takes_the_name_of_one_that_goes_elsewhere(way: str) -> None:
    """Its path is that of another before, whose state it does not take."""
    before = rx.combine_latest(rx.zip_latest(rx.combine_latest(a, a), b), c)
    after = rx.combine_latest(rx.zip_latest(b.debounce(0.5), rx.combine_latest(b, a), b), c)
    ends = [("a", None), ("b", None), ("c", None)]
    assert play(before, after, way, PREFIX, [("b", 11), ("a", 3), *ends]).status == "completed"
