"""What a program handles while it calls an evaluator is no part of what its queries, sinks and sources raise."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from lanes import every

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import CallbackSink, ListSource, QueryEvaluator
from reliable_rx import operators as ops

Seen = dict[str, Any]
n: Any = rx.source("n")


class TheProgramsOwnError(Exception):
    """Nothing that an evaluator keeps or tells may name it."""


def divided(value: int) -> float:
    return 1 / value


def nested(value: int) -> float:
    try:
        return divided(value)
    except ZeroDivisionError as error:
        try:
            raise KeyError("between")
        except KeyError:
            raise ValueError("seen first") from error


def grouped(value: int) -> float:
    found = []
    for function in (divided, nested):
        try:
            function(value)
        except Exception as error:
            found.append(error)
    if found:
        raise ExceptionGroup("both", found)
    return value


def context_of(error: BaseException | None) -> str:
    return repr(error and (error.__context__, error.__cause__))


async def asked(value: int) -> float:
    return nested(value)


def raising(_id: int, value: Any) -> None:
    nested(0)


class InAList:
    """A mapper to sequences."""

    def __init__(self, function: Callable[[int], float]) -> None:
        self.function = function

    def __call__(self, value: int) -> Any:
        return rx.of(self.function(value))


def failing(_resource: None) -> Any:
    return rx.of(nested(0))


def at_the_end() -> None:
    nested(0)


def app() -> QueryEvaluator:
    evaluator = QueryEvaluator(STORE[0], background=False, checkpoint_interval_s=1e9, checkpoint_events=10**9)
    evaluator.source("n", ListSource([1, 2, 0, 3, 0], follow=True))
    for name, function in (("divided", divided), ("nested", nested), ("grouped", grouped)):
        evaluator.create(f"{name} dead", n.map(function), policy="dead_letter")
        evaluator.create(f"{name} skipped", n.map(function), policy="skip")
        evaluator.create(f"{name} failed", n.map(function))
        letters: Any = rx.source(f"{name} dead.dead_letters")
        evaluator.create(f"{name} text", letters.map(lambda letter: letter.traceback))
        shown = n.map(function).materialize().map(lambda it: context_of(getattr(it, "exception", None)))
        evaluator.create(f"{name} shown", shown)
        evaluator.create(f"{name} caught", n.pipe(ops.map(function), ops.catch(lambda e, _: rx.of(context_of(e)))))
        evaluator.create(f"{name} in a list", n.flat_map(InAList(function)))
    used: Any = rx.using(lambda: None, failing)
    evaluator.create("used", used.pipe(ops.catch(lambda e, _: rx.of(context_of(e)))))
    evaluator.create("timed", n, clock=rx.event_time(divided))
    evaluator.create("asked", n.pipe(ops.map_async(asked)))
    evaluator.create("effect", n.pipe(ops.take(1), ops.finally_action(at_the_end)))
    evaluator.create("plain", n.map(lambda x: x))
    evaluator.sink("plain", CallbackSink(raising))
    return evaluator


STORE: list[Any] = []


def worked(evaluator: QueryEvaluator) -> Seen:
    """Run until all is done, return what can be seen, and die."""

    def until() -> bool:
        return evaluator.engine.emitted("plain") >= 5 and evaluator.query("asked").status == "failed"

    evaluator.start()
    evaluator.run(until=until)
    with suppress(ValueError):
        evaluator.run(until=lambda: bool(nested(0)))
    found = seen(evaluator)
    evaluator.abandon()
    return found


def seen(evaluator: QueryEvaluator) -> Seen:
    found: dict[str, Any] = {}
    for each in evaluator.incidents.open():
        found[f"{each.kind} {each.subject}"] = each.message, each.trace
    for name in sorted(evaluator.engine.standing):
        query = evaluator.query(name)
        found[name] = query.status, query.error, query.trace
        values = [value for segment in evaluator.stream(name).read(0, 100) for value in segment.values]
        found[f"{name} stream"] = [repr(each) + str(getattr(each, "traceback", "")) for each in values]
        error = evaluator.engine.standing[name].error
        found[f"{name} chain"] = context_of(error)
    return found


def plain() -> Seen:
    return worked(app())


def in_except() -> Seen:
    try:
        raise TheProgramsOwnError
    except TheProgramsOwnError:
        return plain()


def in_a_chain() -> Seen:
    try:
        try:
            raise TheProgramsOwnError
        except TheProgramsOwnError as error:
            raise TheProgramsOwnError("again") from error
    except TheProgramsOwnError:
        return plain()


def in_a_group() -> Seen:
    found = None
    try:
        raise ExceptionGroup("several", [TheProgramsOwnError()])
    except* TheProgramsOwnError:
        found = plain()
    assert found is not None
    return found


def in_finally() -> Seen:
    found: Seen = {}
    with suppress(TheProgramsOwnError):
        try:
            raise TheProgramsOwnError
        finally:
            found = plain()
    return found


def made_before() -> Seen:
    """The evaluator is made and started where nothing is handled."""
    evaluator = app()
    evaluator.start()
    try:
        raise TheProgramsOwnError
    except TheProgramsOwnError:
        return worked(evaluator)


@contextmanager
def exiting(into: list[Seen]) -> Iterator[None]:
    try:
        yield
    finally:
        into.append(plain())


def in_an_exit() -> Seen:
    found: list[Seen] = []
    with suppress(TheProgramsOwnError), exiting(found):
        raise TheProgramsOwnError
    return found[0]


def in_a_generator() -> Seen:
    def made() -> Iterator[Seen]:
        yield plain()

    try:
        raise TheProgramsOwnError
    except TheProgramsOwnError:
        return next(made())


def in_a_task() -> Seen:
    async def task() -> Seen:
        try:
            raise TheProgramsOwnError
        except TheProgramsOwnError:
            return plain()

    async def main() -> Seen:
        return await asyncio.create_task(task())

    return asyncio.run(main())


def under_a_loop() -> Seen:
    async def main() -> Seen:
        return plain()

    try:
        raise TheProgramsOwnError
    except TheProgramsOwnError:
        return asyncio.run(main())


def in_a_thread() -> Seen:
    found: list[Seen] = []

    def work() -> None:
        found.append(in_except())

    try:
        raise TheProgramsOwnError
    except TheProgramsOwnError:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    return found[0]


def in_a_sink() -> Seen:
    """A sink of another evaluator runs it, in its own handler."""
    found: list[Seen] = []

    def call(_id: int, value: Any) -> None:
        try:
            raise TheProgramsOwnError
        except TheProgramsOwnError:
            found.append(plain())

    with QueryEvaluator(MemoryStore(), background=False) as outer:
        outer.source("n", ListSource([1]))
        outer.create("q", n)
        outer.sink("q", CallbackSink(call))
        try:
            raise TheProgramsOwnError("outer")
        except TheProgramsOwnError:
            outer.run()
    return found[0]


ROUNDS: tuple[Callable[[], Seen], ...] = (
    in_except, in_a_chain, in_a_group, in_finally, made_before, in_an_exit, in_a_generator, in_a_task, under_a_loop,
    in_a_thread, in_a_sink,
)  # fmt: skip


@pytest.fixture(autouse=True)
def store() -> Iterator[None]:
    STORE.append(MemoryStore())
    yield
    STORE.clear()


@pytest.fixture(scope="module")
def wanted() -> list[Seen]:
    """What two runs see that handle nothing, one after the other."""
    STORE.append(MemoryStore())
    found = [plain(), plain()]
    STORE.clear()
    return found


@pytest.mark.parametrize("around", every(3, ROUNDS))
def test_what_is_kept_and_told_is_that_of_a_plain_run(around: Callable[[], Seen], wanted: list[Seen]) -> None:
    """Dead letters, failures, incidents and what operators see of an error; and a replay in a plain run is the same."""
    assert differing(around(), wanted[0]) == {}
    assert differing(plain(), wanted[1]) == {}


@pytest.mark.parametrize("around", every(3, ROUNDS))
def test_a_replay_there_is_that_of_a_plain_run(around: Callable[[], Seen], wanted: list[Seen]) -> None:
    plain()
    assert differing(around(), wanted[1]) == {}


def differing(found: dict[str, Any], wanted: dict[str, Any]) -> Seen:
    return {
        name: (found.get(name), wanted.get(name))
        for name in found.keys() | wanted.keys()
        if found.get(name) != wanted.get(name)
    }


def test_the_program_sees_its_own_chain() -> None:
    """What leaves `run` is linked, as by Python, to what the program was handling, though an incident told of it."""
    try:
        raise TheProgramsOwnError
    except TheProgramsOwnError as handled:
        with app() as evaluator, pytest.raises(ValueError, match="seen first") as caught:
            evaluator.run(until=lambda: bool(nested(0)))
        at: BaseException = caught.value
        while at.__context__ is not None:
            at = at.__context__
        assert at is handled
