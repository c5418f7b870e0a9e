"""`map_async` by itself: un-hosted with coroutines that wait until the test lets them go, and in an engine on all small
words of events, answers and ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from lanes import crossed
from reactivex.scheduler.eventloop import AsyncIOScheduler
from reactivex.subject import Subject

import reliable_rx as rx
from checkpoint.format.codec import encode
from hosting.engine.engine import QueryEngine
from hosting.engine.snapshot import copy_of
from hosting.engine.turns import Answer, Dispose, Events, Output
from reliable_rx import operators as ops
from reliable_rx.errors import AnswerRefused, LimitExceeded
from reliable_rx.runtime.calling import Call
from reliable_rx.unhosted.subscribing import rebuild_state

WAIT_S = 60.0


class Gate:
    """A service whose every call waits until the test answers it."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.pending: dict[Any, asyncio.Future[Any]] = {}
        self.asked: list[Any] = []
        self.cancelled: list[Any] = []
        self.most = 0

    async def __call__(self, value: Any) -> Any:
        future = asyncio.get_running_loop().create_future()
        with self.changed:
            self.pending[value] = future
            self.asked.append(value)
            self.most = max(self.most, len(self.pending))
            self.changed.notify_all()
        try:
            return await future
        except asyncio.CancelledError:
            self.cancelled.append(value)
            raise
        finally:
            with self.changed:
                self.pending.pop(value, None)
                self.changed.notify_all()

    def wait_for(self, *values: Any) -> None:
        """Return when these and no others are in flight."""
        with self.changed:
            assert self.changed.wait_for(lambda: set(self.pending) == set(values), WAIT_S), self.pending

    def answer(self, value: Any, answer: Any) -> None:
        """Let the call for *value* return, or raise what *answer* is."""
        future = self.pending[value]
        settle = future.set_exception if isinstance(answer, BaseException) else future.set_result
        future.get_loop().call_soon_threadsafe(settle, answer)


class Heard:
    """An observer that can be waited for, and that notices being entered by two threads at once."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.busy = threading.Lock()
        self.record: list[Any] = []

    def note(self, what: Any) -> None:
        assert self.busy.acquire(blocking=False), "two threads at once"
        with self.changed:
            self.record.append(what)
            self.changed.notify_all()
        self.busy.release()

    def subscribe(self, query: Any, **options: Any) -> Any:
        return query.subscribe(self.note, lambda error: self.note(error), lambda: self.note("|"), **options)

    def wait_for(self, *record: Any) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.record) >= len(record), WAIT_S), self.record
        assert self.record == list(record)


@pytest.fixture(params=[False, True], ids=["kept", "rebuilt"])
def rebuilt(request: pytest.FixtureRequest) -> Iterator[bool]:
    with rebuild_state(request.param):
        yield request.param


def opened(**options: Any) -> tuple[Gate, Heard, Subject[Any]]:
    gate, heard, source = Gate(), Heard(), Subject[Any]()
    heard.subscribe(source.pipe(ops.map_async(gate, **options)))
    return gate, heard, source


def push(source: Subject[Any], *values: Any) -> None:
    for value in values:
        source.on_next(value)


# -- un-hosted


def test_results_come_in_the_order_of_the_elements(rebuilt: bool) -> None:
    """An answer that is early waits for its turn."""
    gate, heard, source = opened()
    push(source, 1, 2, 3)
    source.on_completed()
    gate.wait_for(1, 2, 3)
    gate.answer(3, "c")
    gate.wait_for(1, 2)
    gate.answer(1, "a")
    heard.wait_for("a")
    gate.answer(2, "b")
    heard.wait_for("a", "b", "c", "|")


def test_results_come_as_they_are_answered(rebuilt: bool) -> None:
    """Not ordered, nobody waits for anybody else."""
    gate, heard, source = opened(ordered=False)
    push(source, 1, 2)
    gate.wait_for(1, 2)
    gate.answer(2, "b")
    heard.wait_for("b")
    gate.answer(1, "a")
    heard.wait_for("b", "a")
    source.on_completed()
    heard.wait_for("b", "a", "|")


def test_no_more_calls_are_in_flight_than_may_be(rebuilt: bool) -> None:
    """The others wait, and the next one is called when an answer has come."""
    gate, heard, source = opened(concurrency=2)
    push(source, 1, 2, 3, 4)
    for value in (1, 2, 3):
        gate.wait_for(value, value + 1)
        gate.answer(value, value)
    gate.wait_for(4)
    heard.wait_for(1, 2, 3)
    assert (gate.most, gate.asked) == (2, [1, 2, 3, 4])


def test_early_answers_are_bounded(rebuilt: bool) -> None:
    """While the oldest call hangs, no more than four times *concurrency* are asked or wait for their turn."""
    gate, heard, source = opened(concurrency=2)
    push(source, *range(20))
    for value in range(1, 8):
        gate.wait_for(0, value)
        gate.answer(value, value)
    gate.wait_for(0)
    assert gate.asked == list(range(8))
    gate.answer(0, 0)
    heard.wait_for(*range(8))
    gate.wait_for(8, 9)


def test_an_error_of_a_call_ends_the_sequence_in_its_turn(rebuilt: bool) -> None:
    """What came before it comes out; calls behind it are cancelled."""
    gate, heard, source = opened(concurrency=3)
    push(source, 1, 2, 3)
    gate.wait_for(1, 2, 3)
    error = ValueError("no")
    gate.answer(2, error)
    gate.wait_for(1, 3)
    gate.answer(1, "a")
    heard.wait_for("a", error)
    gate.wait_for()
    assert gate.cancelled == [3]


def test_an_error_of_the_source_drops_the_calls(rebuilt: bool) -> None:
    """As in a merge, an error does not wait."""
    gate, heard, source = opened()
    push(source, 1)
    gate.wait_for(1)
    error = ValueError("over")
    source.on_error(error)
    heard.wait_for(error)
    gate.wait_for()
    assert gate.cancelled == [1]


def test_unsubscribing_cancels_the_calls(rebuilt: bool) -> None:
    """Nobody waits for them any more."""
    gate, heard, source = Gate(), Heard(), Subject[Any]()
    held = heard.subscribe(source.pipe(ops.map_async(gate)))
    push(source, 1, 2)
    gate.wait_for(1, 2)
    held.dispose()
    gate.wait_for()
    assert sorted(gate.cancelled) == [1, 2]
    assert heard.record == []


def test_enough_results_end_the_calls(rebuilt: bool) -> None:
    """A `take` behind it cancels what is in flight."""
    gate, heard, source = Gate(), Heard(), Subject[Any]()
    heard.subscribe(source.pipe(ops.map_async(gate, ordered=False), ops.take(1)))
    push(source, 1, 2)
    gate.wait_for(1, 2)
    gate.answer(2, "b")
    heard.wait_for("b", "|")
    gate.wait_for()
    assert gate.cancelled == [1]


def test_a_retry_calls_again(rebuilt: bool) -> None:
    """What stands before a retry starts with nothing in flight."""
    gate, heard, source = Gate(), Heard(), Subject[Any]()
    heard.subscribe(source.pipe(ops.map_async(gate), ops.retry(2)))
    push(source, 1, 2)
    gate.wait_for(1, 2)
    gate.answer(1, ValueError("once"))
    gate.wait_for()
    push(source, 3)
    gate.wait_for(3)
    gate.answer(3, "c")
    heard.wait_for("c")


def test_answers_and_events_are_never_delivered_at_once(rebuilt: bool) -> None:
    """The loop's thread and the source's take turns."""
    heard, source = Heard(), Subject[Any]()

    async def double(value: int) -> int:
        return value * 2

    heard.subscribe(source.pipe(ops.map_async(double, ordered=False), ops.merge(source)))
    threads = [threading.Thread(target=push, args=(source, *range(50)), daemon=True) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(WAIT_S)
    with heard.changed:
        assert heard.changed.wait_for(lambda: len(heard.record) == 200, WAIT_S)
    assert sorted(heard.record) == sorted([*range(50), *range(0, 100, 2)] * 2)


def test_a_call_that_takes_too_long_is_a_timeout() -> None:
    """It is cancelled, and its element's error says how long it had."""
    gate = Gate()
    with pytest.raises(TimeoutError, match=r"no answer within 0\.01 s"):
        rx.of(1).map_async(gate, timeout_s=0.01).run()
    assert gate.cancelled == [1]


def test_a_timeout_of_the_coroutines_own_stays_as_it_is() -> None:
    """Only our own limit is put into words."""

    async def own(value: int) -> int:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        rx.of(1).map_async(own, timeout_s=5.0).run()


@pytest.mark.parametrize("raised", [asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt()])
def test_what_is_no_error_of_an_element_becomes_one(raised: BaseException) -> None:
    """A coroutine that cancels itself or wants to end the process fails its element, and the loop goes on."""

    async def wild(value: int) -> int:
        raise raised

    with pytest.raises(AnswerRefused):
        rx.of(1).map_async(wild).run()
    assert rx.of(1).map_async(same).run() == 1


async def same(value: Any) -> Any:
    return value


def test_calls_run_on_the_loop_of_the_application() -> None:
    """With an `AsyncIOScheduler` everything happens in its loop."""

    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        found: list[Any] = []

        async def where(value: int) -> bool:
            await asyncio.sleep(0)
            return asyncio.get_running_loop() is loop

        rx.of(1, 2).map_async(where).subscribe(
            found.append, over.set_exception, lambda: over.set_result(None), scheduler=AsyncIOScheduler(loop)
        )
        await asyncio.wait_for(over, WAIT_S)
        return found

    assert asyncio.run(main()) == [True, True]


def test_what_waits_is_limited() -> None:
    """Un-hosted nobody holds a source back: the limit of queues does."""
    gate, heard, source = opened(concurrency=1)
    push(source, *range(100_002))
    assert isinstance(heard.record[0], LimitExceeded)
    gate.wait_for()


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ((5,), {}, TypeError),
        ((None,), {}, TypeError),
        ((same,), {"concurrency": 0}, ValueError),
        ((same,), {"concurrency": -1}, ValueError),
        ((same,), {"concurrency": 1.5}, TypeError),
        ((same,), {"concurrency": True}, TypeError),
        ((same,), {"timeout_s": 0}, ValueError),
        ((same,), {"timeout_s": -1.0}, ValueError),
        ((same,), {"timeout_s": float("nan")}, ValueError),
    ],
)
def test_arguments_that_make_no_sense_are_refused_at_once(
    arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception]
) -> None:
    """Not when the first event comes."""
    with pytest.raises(error):
        ops.map_async(*arguments, **options)


def test_a_coroutine_instead_of_its_function_is_refused() -> None:
    """The usual slip: calling it."""
    coroutine = same(1)
    with pytest.raises(TypeError, match="async function"):
        ops.map_async(coroutine)  # type: ignore[arg-type]
    coroutine.close()


def test_a_function_that_is_not_async_is_named() -> None:
    """Whether it returns something to wait for is known when it is called."""
    with pytest.raises(TypeError, match="async def"):
        rx.of(1).map_async(str).run()  # type: ignore[arg-type]


# -- in an engine, without anybody who calls


class Played:
    """One word of events and answers in an engine, recovered after every turn if *crash*."""

    def __init__(self, *, concurrency: int, ordered: bool, policy: str, crash: bool) -> None:
        self.engine = QueryEngine()
        self.engine.declare("s", ["0"])
        query = rx.source("s").pipe(ops.map_async(same, concurrency=concurrency, ordered=ordered))
        self.crash = crash
        self.taken = count()
        self.out: list[Any] = []
        self.dead: list[Any] = []
        self.take(self.engine.creation("q", query, time=0.0, policy=policy))

    def take(self, turn: Any) -> None:
        for output in self.engine.take(turn):
            self.note(output)
        if self.crash:
            self.engine = copy_of(self.engine)

    def note(self, output: Output) -> None:
        if output.name == "q":
            self.out += output.values
            if output.ended:
                self.out.append("|" if output.error is None else str(output.error))
        else:
            self.dead += [(letter.position, letter.value) for letter in output.values]

    def in_flight(self) -> dict[int, Any]:
        """Return the elements in flight by their calls, oldest first."""
        return {call: asked(self.engine, call) for call in sorted(self.engine.calls.askers)}

    def play(self, letter: str) -> None:
        if letter == "e":
            self.take(Events("s", "0", n := next(self.taken), [n], 0.0))
        elif letter == "|":
            self.take(Events("s", "0", next(self.taken), [], 0.0, ended=True))
        else:
            call, value = list(self.in_flight().items())[int(letter[1])]
            error = ValueError(f"no {value}") if letter[0] == "x" else None
            self.take(Answer(call, encode((f"a{value}", error)), 0.0))


def asked(engine: QueryEngine, call: Call) -> Any:
    instance, node = engine.calls.askers[call]
    op: Any = node.op
    return op.in_flight(instance.states[node.slot])[call]


class Model:
    """What must be seen, kept as simply as can be said: who is asked, who has answered what, in which order."""

    def __init__(self, concurrency: int, ordered: bool, policy: str) -> None:
        self.concurrency, self.ordered, self.policy = concurrency, ordered, policy
        self.elements = 0
        self.answered: dict[int, bool] = {}
        self.ended = False

    def in_flight(self) -> list[int]:
        return [] if self.failed() else [n for n in range(self.elements) if n not in self.answered][: self.concurrency]

    def play(self, letter: str) -> None:
        if letter == "e":
            self.elements += 1
        elif letter == "|":
            self.ended = True
        else:
            self.answered[self.in_flight()[int(letter[1])]] = letter[0] == "a"

    def passed(self) -> Iterator[int]:
        """Yield the elements that have been answered and whose turn has come."""
        if not self.ordered:
            yield from self.answered
            return
        for n in range(self.elements):
            if n not in self.answered:
                return
            yield n

    def failed(self) -> bool:
        return self.policy == "fail" and not all(self.answered[n] for n in self.passed())

    def out(self) -> list[str]:
        out = []
        for n in self.passed():
            if self.answered[n]:
                out.append(f"a{n}")
            elif self.policy == "fail":
                return [*out, f"no {n}"]
        return [*out, "|"] if self.ended and len(self.answered) == self.elements else out

    def dead(self) -> list[tuple[int, int]]:
        return [(n, n) for n in self.passed() if not self.answered[n]] if self.policy == "dead_letter" else []


def words(model: Callable[[], Model], length: int, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every word of events, answers, errors and the end that can be played, up to a length."""
    yield before
    if len(before) == length:
        return
    state = model()
    for letter in before:
        state.play(letter)
    places = range(len(state.in_flight()))
    alive = [] if state.ended or state.failed() else ["e", "|"]
    for letter in [*alive, *(f"{kind}{place}" for place in places for kind in "ax")]:
        yield from words(model, length, (*before, letter))


@pytest.mark.parametrize(
    "policy, ordered, concurrency", crossed(["fail", "skip", "dead_letter"], [True, False], [1, 2])
)
def test_all_small_words(concurrency: int, ordered: bool, policy: str) -> None:
    """Events, answers in every order, errors and the end: the engine and the model agree after every letter, also when
    the engine goes through bytes after every turn."""
    play_all(5 if policy == "fail" else 4, concurrency, ordered, policy)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["fail", "skip", "dead_letter"])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("concurrency", [1, 2, 3])
def test_all_longer_words(concurrency: int, ordered: bool, policy: str) -> None:
    """The same with two letters more."""
    play_all(6, concurrency, ordered, policy)


def play_all(length: int, concurrency: int, ordered: bool, policy: str) -> None:
    def model() -> Model:
        return Model(concurrency, ordered, policy)

    for word in words(model, length):
        for crash in (False, True):
            expected, played = model(), Played(concurrency=concurrency, ordered=ordered, policy=policy, crash=crash)
            for letter in word:
                expected.play(letter)
                played.play(letter)
            assert played.out == expected.out(), (word, crash)
            assert played.dead == expected.dead(), (word, crash)
            assert list(played.in_flight().values()) == expected.in_flight(), (word, crash)


def test_an_answer_that_nobody_waits_for_is_dropped() -> None:
    """A query made anew under the old name does not get the answers to the calls of the one before."""
    played = Played(concurrency=2, ordered=True, policy="fail", crash=False)
    played.play("e")
    (call,) = played.in_flight()
    engine = played.engine
    engine.take(Dispose("q", 0.0))
    assert not engine.calls.askers
    played.take(engine.creation("q", rx.source("s").pipe(ops.map_async(same)), time=0.0))
    played.play("e")
    played.take(Answer(call, encode(("old", None)), 0.0))
    assert played.out == []
    played.play("a0")
    assert played.out == ["a1"]
