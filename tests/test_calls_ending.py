"""Calls that end in hostile ways: each is answered, or its query fails by name, and all that is beside it goes on."""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from lanes import crossed
from test_map_async import WAIT_S, same
from test_map_async_hosted import echo, values_of

import reliable_rx as rx
import reliable_rx.unhosted.loop
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx.errors import AnswerRefused
from reliable_rx.unhosted.loop import LoopThread

COUNT = 6
AT = 3
"""The element whose call is hostile."""


class Wordless(BaseException):
    """What is neither an `Exception` nor can be shown."""

    def __repr__(self) -> str:
        raise ValueError("no word")

    __str__ = __repr__


class Leaving(Exception):
    """Ends the process where it is shown."""

    def __str__(self) -> str:
        raise SystemExit(9)

    __repr__ = __str__


class Awaited:
    """Raises where it is waited for."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __await__(self) -> Any:
        raise self.error


class Junk:
    """Is waited for with what is no future."""

    def __await__(self) -> Any:
        yield "junk"


class Posing:
    """Ends the process where its class is asked for."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise SystemExit(9)


async def raise_it(error: BaseException) -> None:
    raise error


async def in_group(error: BaseException) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(raise_it(error))
        await asyncio.sleep(1e9)


async def cancel_at_once() -> None:
    this_task().cancel()


async def cancel_and_wait() -> None:
    this_task().cancel()
    await asyncio.sleep(0)


async def cancel_twice() -> None:
    this_task().cancel()
    try:
        await asyncio.sleep(0)
    finally:
        this_task().cancel()
        await asyncio.sleep(0)


async def cancel_and_go_on() -> None:
    this_task().cancel()
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        await asyncio.sleep(0)


async def cancelled_by_child() -> None:
    task = this_task()

    async def child() -> None:
        task.cancel()

    await asyncio.create_task(child())
    await asyncio.sleep(1e9)


async def wait_for_cancelled() -> None:
    child = asyncio.create_task(asyncio.sleep(1e9))
    child.cancel()
    await child


async def cancel_in_group() -> None:
    task = this_task()
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(1e9))
        task.cancel()


async def leave_a_child(error: BaseException) -> None:
    child = asyncio.create_task(raise_it(error))
    while not child.done():
        await asyncio.sleep(0)
    child.exception()


async def leave_in_callback(error: BaseException) -> None:
    def callback() -> None:
        raise error

    asyncio.get_running_loop().call_soon(callback)
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def stop_loop() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def stop_at_end() -> None:
    asyncio.get_running_loop().stop()


async def close_loop() -> None:
    asyncio.get_running_loop().stop()
    asyncio.get_running_loop().close()


async def run_another() -> None:
    coroutine = asyncio.sleep(0)
    try:
        asyncio.run(coroutine)
    finally:
        coroutine.close()


async def other_loop() -> None:
    loop = asyncio.new_event_loop()
    try:
        await loop.create_future()
    finally:
        loop.close()


def this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


REFUSED = "AnswerRefused"
CANCELLED = "AnswerRefused: the call was cancelled"
ENDINGS: dict[str, tuple[Callable[[], Awaitable[Any]], str]] = {
    "cancelled at once": (cancel_at_once, CANCELLED),
    "cancelled": (cancel_and_wait, CANCELLED),
    "cancelled twice": (cancel_twice, CANCELLED),
    "cancelled, goes on": (cancel_and_go_on, ""),
    "cancelled by a child": (cancelled_by_child, CANCELLED),
    "a child that is cancelled": (wait_for_cancelled, CANCELLED),
    "cancelled in a group": (cancel_in_group, CANCELLED),
    "raises CancelledError": (lambda: raise_it(asyncio.CancelledError()), CANCELLED),
    "raises SystemExit": (lambda: raise_it(SystemExit(3)), REFUSED),
    "raises KeyboardInterrupt": (lambda: raise_it(KeyboardInterrupt()), REFUSED),
    "raises GeneratorExit": (lambda: raise_it(GeneratorExit()), REFUSED),
    "raises StopIteration": (lambda: raise_it(StopIteration()), "RuntimeError"),
    "raises what is wordless": (lambda: raise_it(Wordless()), REFUSED),
    "raises what leaves": (lambda: raise_it(Leaving()), "Leaving"),
    "a group's SystemExit": (lambda: in_group(SystemExit(3)), REFUSED),
    "a group's KeyboardInterrupt": (lambda: in_group(KeyboardInterrupt()), REFUSED),
    "a group's wordless": (lambda: in_group(Wordless()), REFUSED),
    "a child's SystemExit": (lambda: leave_a_child(SystemExit(3)), ""),
    "a child's KeyboardInterrupt": (lambda: leave_a_child(KeyboardInterrupt()), ""),
    "a callback's SystemExit": (lambda: leave_in_callback(SystemExit(3)), ""),
    "awaits SystemExit": (lambda: Awaited(SystemExit(3)), REFUSED),
    "awaits CancelledError": (lambda: Awaited(asyncio.CancelledError()), CANCELLED),
    "awaits wordless": (lambda: Awaited(Wordless()), REFUSED),
    "awaits junk": (Junk, "RuntimeError"),
    "returns what is none": (Posing, REFUSED),
    "stops the loop": (stop_loop, ""),
    "stops the loop at its end": (stop_at_end, ""),
    "closes the loop": (close_loop, "RuntimeError"),
    "runs another loop": (run_another, "RuntimeError"),
    "waits for another loop": (other_loop, "RuntimeError"),
}
"""How a call ends, and how its error begins; no error: it is answered."""


class Beside:
    """What tells that the call beside the hostile one is at work."""

    def __init__(self) -> None:
        self.at_work = asyncio.Event()


BESIDE = Beside()
"""A function of a query is known by what it holds; this is outside of it."""


class Ending:
    """Its call for one element ends so, once the one beside it is at work."""

    def __init__(self, make: Callable[[], Awaitable[Any]]) -> None:
        self.make = make

    def __call__(self, value: int) -> Awaitable[int]:
        made = self.make() if value == AT else same(value)
        return work(made, value) if asyncio.iscoroutine(made) else made


async def work(made: Awaitable[Any], value: int) -> int:
    if value == AT:
        await BESIDE.at_work.wait()
    await made
    return value


async def stays(value: int) -> int:
    """Be at work while the other call ends, and go on for a while."""
    if value == AT:
        BESIDE.at_work.set()
        for _ in range(20):
            await asyncio.sleep(0)
    return value


class Run:
    """What came of a query whose call ends so, and of the queries beside it."""

    def __init__(self, make: Callable[[], Awaitable[Any]], policy: str, timeout_s: float | None) -> None:
        BESIDE.__init__()  # type: ignore[misc]
        source = rx.source("n")
        with QueryEvaluator(MemoryStore(), checkpoint_interval_s=1e9) as evaluator:
            evaluator.source("n", ListSource(range(COUNT)))
            evaluator.create("q", source.map_async(Ending(make), timeout_s=timeout_s), policy=policy)
            evaluator.create("beside", source.map_async(stays), policy="dead_letter")
            evaluator.create("behind", source.map_async(echo, concurrency=1), policy="dead_letter")
            evaluator.create("other", source.map(lambda n: n))
            running = threading.Thread(target=evaluator.run, daemon=True)
            running.start()
            running.join(WAIT_S)
            assert not running.is_alive(), "a call was never answered"
            RELEASED.now = True
            self.values = values_of(evaluator, "q")
            self.letters = values_of(evaluator, "q.dead_letters")
            self.error = evaluator.query("q").error
            self.beside = values_of(evaluator, "beside")
            self.beside_letters = values_of(evaluator, "beside.dead_letters")
            self.behind = values_of(evaluator, "behind")
            self.behind_letters = values_of(evaluator, "behind.dead_letters")
            assert values_of(evaluator, "other") == list(range(COUNT))
            self.statuses = {name: evaluator.query(name).status for name in ("q", "beside", "behind", "other")}

    def check_others(self) -> None:
        """All other calls have their answers."""
        assert (self.beside, self.beside_letters) == (list(range(COUNT)), [])
        assert (self.behind, self.behind_letters) == (list(range(COUNT)), [])

    def check_failed(self, policy: str, error: str) -> None:
        """One element has no value, and why is told as *policy* says."""
        others = [value for value in range(COUNT) if value != AT]
        assert self.values == (others if policy != "fail" else others[:AT])
        assert [(each.value, each.error.startswith(error)) for each in self.letters] == (
            [(AT, True)] if policy == "dead_letter" else []
        )
        assert self.error.startswith(error) if policy == "fail" else self.error == ""
        assert self.statuses["q"] == ("failed" if policy == "fail" else "completed")


@pytest.mark.parametrize(
    ("name", "policy", "timeout_s"), crossed(list(ENDINGS), ["dead_letter", "fail", "skip"], [None, WAIT_S])
)
def test_a_call_is_answered_however_it_ends(name: str, policy: str, timeout_s: float | None) -> None:
    """Its element has an answer or an error that says why, as the policy says, and every other call is answered."""
    make, error = ENDINGS[name]
    run = Run(make, policy, timeout_s)
    if error:
        run.check_failed(policy, error)
    else:
        assert (run.values, run.letters, run.error) == (list(range(COUNT)), [], "")
    run.check_others()
    assert set(run.statuses.values()) <= {"completed", run.statuses["q"]}


@pytest.mark.parametrize("name", ENDINGS)
def test_an_unhosted_call_is_answered_however_it_ends(name: str) -> None:
    """The same without an evaluator, and the next query has its calls made."""
    make, error = ENDINGS[name]
    BESIDE.__init__()  # type: ignore[misc]
    failed: list[str] = []
    found: list[int] = []
    over = threading.Event()

    def fail(raised: Exception) -> None:
        failed.append(type(raised).__name__)
        over.set()

    with rx.of(AT).map_async(Ending(make)).merge(rx.of(AT).map_async(stays)).subscribe(found.append, fail, over.set):
        assert over.wait(WAIT_S), "a call was never answered"
    assert failed == ([error.partition(":")[0]] if error else [])
    assert error or found == [AT, AT]
    assert rx.of(1).map_async(same).run() == 1


class Released:
    """Until when a call ignores that it is cancelled."""

    def __init__(self) -> None:
        self.now = False


RELEASED = Released()


async def hang() -> None:
    await asyncio.sleep(1e9)


async def go_on_cancelled() -> None:
    while not RELEASED.now:
        try:
            await asyncio.sleep(1e9)
        except asyncio.CancelledError:
            await asyncio.sleep(0)


async def fail_cancelled() -> None:
    try:
        await asyncio.sleep(1e9)
    except asyncio.CancelledError:
        raise OSError("in time") from None


async def cancel_at_the_limit() -> None:
    try:
        await asyncio.sleep(1e9)
    finally:
        this_task().cancel()
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("make", "policy", "error"),
    [
        (hang, "dead_letter", "TimeoutError: no answer within 0.05 s"),
        (hang, "fail", "TimeoutError: no answer within 0.05 s"),
        (go_on_cancelled, "dead_letter", "TimeoutError: no answer within 0.05 s"),
        (go_on_cancelled, "fail", "TimeoutError: no answer within 0.05 s"),
        (go_on_cancelled, "skip", "TimeoutError: no answer within 0.05 s"),
        (cancel_at_the_limit, "dead_letter", "TimeoutError: no answer within 0.05 s"),
        (fail_cancelled, "dead_letter", "OSError: in time"),
    ],
)
def test_a_call_that_does_not_end_is_answered_for(
    make: Callable[[], Awaitable[Any]], policy: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind its limit it is cancelled, and one that ignores it is waited for no longer than it may clean up."""
    monkeypatch.setattr(reliable_rx.unhosted.loop, "CANCEL_S", 0.01)
    monkeypatch.setattr(RELEASED, "now", False)
    run = Run(make, policy, 0.05)
    run.check_failed(policy, error)
    run.check_others()


async def cancel_all() -> None:
    for task in asyncio.all_tasks():
        task.cancel()
    await asyncio.sleep(0)


def test_a_call_that_cancels_all_others() -> None:
    """Each has its refusal, or the answer that it had before, and later ones are made.

    The calls of `behind` are made one after the other: one of them may be about to begin.
    """
    run = Run(cancel_all, "dead_letter", None)
    assert (AT in run.values, AT in run.beside) == (False, False)
    for values, letters in (
        (run.values, run.letters),
        (run.beside, run.beside_letters),
        (run.behind, run.behind_letters),
    ):
        assert sorted([*values, *(each.value for each in letters)]) == list(range(COUNT))
        assert all(each.error.startswith(CANCELLED) for each in letters)


def test_what_ends_the_loop_of_calls_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """A task that somebody lets go of and that wants to end the process is in the log."""
    with caplog.at_level(logging.ERROR, logger="asyncio"):
        Run(ENDINGS["a child's SystemExit"][0], "fail", None)
    assert "a task of a call raised SystemExit: 3; the calls go on" in [each.getMessage() for each in caplog.records]


class Answers:
    """What was answered to calls that are made by hand."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.of: dict[str, list[Any]] = {}

    def to(self, name: str) -> Callable[[Any, Exception | None], None]:
        def done(value: Any, error: Exception | None) -> None:
            with self.changed:
                self.of.setdefault(name, []).append(value if error is None else error)
                self.changed.notify_all()

        return done

    def wait_for(self, *names: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: set(self.of) >= set(names), WAIT_S), self.of


def test_a_number_that_is_called_again_is_another_call() -> None:
    """A call that was let go of, and ends when its number is at work again, does not take the new one with it."""
    thread, answers = LoopThread("test"), Answers()
    tasks = thread.tasks()
    cleaned, cancelled = asyncio.Event(), threading.Event()

    async def first() -> None:
        try:
            await asyncio.sleep(1e9)
        except asyncio.CancelledError:
            await cleaned.wait()

    async def second() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            cancelled.set()

    async def clean() -> None:
        cleaned.set()
        for _ in range(5):
            await asyncio.sleep(0)

    tasks.begin(1, first, None, answers.to("first"))
    tasks.begin(2, lambda: asyncio.sleep(0), None, answers.to("started"))
    answers.wait_for("started")
    tasks.cancel(1)
    tasks.begin(1, second, None, answers.to("second"))
    tasks.begin(3, clean, None, answers.to("cleaned"))
    answers.wait_for("cleaned")
    tasks.cancel(1)
    assert cancelled.wait(WAIT_S)
    assert thread.close(WAIT_S)
    assert set(answers.of) == {"started", "cleaned"}


def broken(*_: Any) -> Any:
    raise OSError(errno.EBADF, "as where a call has closed what is not its own")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_loop_that_a_call_breaks() -> None:
    """What was at work on it is answered with that, and what is called next has another loop."""
    thread, answers = LoopThread("test"), Answers()

    async def breaks() -> None:
        loop: Any = asyncio.get_running_loop()
        loop._selector.select = broken
        await asyncio.sleep(1e9)

    thread.tasks().begin(1, hang, None, answers.to("beside"))
    thread.tasks().begin(2, breaks, None, answers.to("breaks"))
    answers.wait_for("beside", "breaks")
    assert [type(each) for some in answers.of.values() for each in some] == [AnswerRefused, AnswerRefused]
    assert thread.thread is not None
    thread.thread.join(WAIT_S)
    thread.tasks().begin(3, lambda: same(3), None, answers.to("next"))
    answers.wait_for("next")
    assert answers.of["next"] == [3]
    assert thread.close(WAIT_S)
