"""Operators that go on after an error.

What they read next is an input of the plan where it is known beforehand, so that a host sees its sources; what a
handler returns is an inner sequence, for which the handler is called again on recovery.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

from reactivex import Observable

from reliable_rx.class_of import is_a, name_of
from reliable_rx.operators.contract.arguments import check_number
from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.merge_concat import place_of, read_alone
from reliable_rx.query.query import Query, apply, as_query

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)
Errors = type[Exception] | tuple[type[Exception], ...]


@frozen
class CatchHandler(Stage, name="catch"):
    free = ("on",)
    passes_on = catches_inner = leaves_first = True
    resubscribes = True
    handler: Callable[[Exception, Observable[Any]], Any]
    _source: Query[Any]
    on: Errors = Exception

    def on_adopted(self, cx: Context, before: Before) -> None:
        cx.unsubscribe(0)  # it had failed: the handler is read

    def on_error(self, cx: Context, port: int, error: Exception) -> None:
        if isinstance(error, self.on):
            cx.open("handler", error)
        else:
            cx.fail(error)

    def inner(self, outer: Exception) -> Observable[Any]:
        return as_query(self.handler(outer, self._source))

    def on_inner_completed(self, cx: Context, key: Hashable) -> None:
        cx.complete()


@frozen
class CatchNext(Stage, name="catch_next"):
    """The sequences one after the other until one completes."""

    passes_on = leaves_first = True
    scheduler_default = "current_thread"
    free = ("on",)
    inputs: int
    on: Errors = Exception

    @dataclass(slots=True)
    class State:
        index: int = -1
        error: Exception | None = None

    def on_start(self, cx: Context) -> None:
        cx.soon("next")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.state.index += 1
        if cx.state.index < self.inputs:
            cx.subscribe(cx.state.index)
        elif cx.state.error is None:
            cx.complete()
        else:
            cx.fail(cx.state.error)

    def adopt(self, state: State, before: Before) -> bool:
        state.index = place_of(state.index, before)
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        read_alone(cx, cx.state.index, self.inputs)

    def on_error(self, cx: Context, port: int, error: Exception) -> None:
        if isinstance(error, self.on):
            cx.state.error = error
            cx.soon("next")
        else:
            cx.fail(error)


def catch(
    handler: Observable[A] | Callable[[Exception, Observable[A]], Observable[A]], *, on: Errors = Exception
) -> Callable[[Observable[A]], Query[A]]:
    """Continue with another sequence after an error: *handler*, or what ``handler(error, source)`` returns.

    >>> import reliable_rx as rx
    >>> rx.throw("over").catch(rx.of(1)).run()
    1
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs, ys: xs.pipe(catch(ys)), "-1-2-#", "-a-b-c-d-|")
    -1-2-#
    -a-b-c-d-|
    -1-2-c-d-|

    Beyond RxPY: errors that are not of a type in *on* pass.

    >>> missing = rx.throw(KeyError("k")).catch(rx.of("default"), on=(KeyError, IndexError))
    >>> missing.run()
    'default'

    *State*: the error while the handler's sequence runs, which is called again on recovery and must be pure.
    """
    if isinstance(handler, Iterable) and not callable(handler):
        handler = as_query(handler)
    if isinstance(handler, Observable):
        return lambda source: apply(CatchNext(2, on), source, handler)
    if is_a(handler, type) and issubclass(handler, BaseException):
        name = name_of(handler)
        raise TypeError(
            f"catch takes the sequence to go on with, or a function that makes it, got the class {name}: write "
            f"catch(other, on={name})"
        )

    def applied(source: Observable[Any]) -> Query[Any]:
        query = as_query(source)
        return apply(CatchHandler(handler, query, on), query)

    return applied


@frozen
class OnErrorResumeNext(Stage, name="on_error_resume_next"):
    """Each step is the number of an input, or a function from the error before it to a sequence."""

    passes_on = catches_inner = True
    scheduler_default = "current_thread"
    steps: tuple[int | Callable[[Exception | None], Any], ...]

    @dataclass(slots=True)
    class State:
        index: int = -1
        error: Exception | None = None

    def on_start(self, cx: Context) -> None:
        cx.soon("next")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        state.index += 1
        if state.index == len(self.steps):
            cx.complete()
        elif isinstance(step := self.steps[state.index], int):
            cx.subscribe(step)
        else:
            try:
                cx.open("made", (state.index, state.error))
            except BaseException as raised:
                if state.error is None:
                    raise
                cx.refuse(raised, had_error=True)

    def settings(self) -> dict[str, Any]:
        return {"steps": " ".join("made" if callable(step) else str(step) for step in self.steps)}

    def adopt(self, state: State, before: Before) -> bool:
        index, steps = state.index, before.settings["steps"].split()
        if steps[index] != "made":
            passed = place_of(int(steps[index]), before)
            state.index = self.steps.index(passed) if passed >= 0 else -1
        elif index >= len(self.steps) or not callable(self.steps[index]):
            state.index = min(index, len(self.steps)) - 1
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        step = self.steps[cx.state.index] if cx.state.index >= 0 else None
        for port in range(len(before.ports)):
            if port != step:
                cx.unsubscribe(port)
        if not callable(step):
            cx.close("made")
        if not (cx.opened() or (isinstance(step, int) and cx.runs(step))):
            cx.soon("next")

    def inner(self, outer: tuple[int, Exception | None]) -> Observable[Any]:
        index, error = outer
        return as_query(self.steps[index](error))  # type: ignore[operator]

    def on_error(self, cx: Context, port: int, error: Exception) -> None:
        self._resume(cx, error)

    def on_completed(self, cx: Context, port: int) -> None:
        self._resume(cx, None)

    def on_inner_error(self, cx: Context, key: Hashable, error: Exception) -> None:
        self._resume(cx, error)

    def on_inner_completed(self, cx: Context, key: Hashable) -> None:
        self._resume(cx, None)

    @staticmethod
    def _resume(cx: Context, error: Exception | None) -> None:
        cx.state.error = error
        cx.soon("next")


def resuming(sources: tuple[Any, ...]) -> Query[Any]:
    """Read *sources* one after the other, whether they fail or not; a function among them is given the error."""
    inputs: list[Any] = []
    steps: list[Any] = []
    for each in sources:
        if isinstance(each, Observable) or not callable(each):
            steps.append(len(inputs))
            inputs.append(each)
        else:
            steps.append(each)
    return apply(OnErrorResumeNext(tuple(steps)), *inputs)


def on_error_resume_next(second: Observable[A]) -> Callable[[Observable[A]], Query[A]]:
    """Emit the sequence and then *second*, whether the first has failed or completed.

    >>> import reliable_rx as rx
    >>> rx.throw("over").on_error_resume_next(rx.of(1)).run()
    1
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs, ys: xs.pipe(on_error_resume_next(ys)), "-1-2-#", "-a-b-c-d-|")
    -1-2-#
    -a-b-c-d-|
    -1-2-c-d-|

    *State*: which sequence is being read, and the error of the one before.
    """
    return lambda source: resuming((source, second))


@frozen
class Retry(Stage, name="retry"):
    passes_on = True
    scheduler_default = "current_thread"
    resubscribes = True
    free = ("retry_count",)
    retry_count: int | None

    @dataclass(slots=True)
    class State:
        attempts: int = 0
        error: Exception | None = None

    def is_endless(self) -> bool:
        return self.retry_count is None

    def on_start(self, cx: Context) -> None:
        cx.soon("next")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        if self.retry_count is None or state.attempts < self.retry_count:
            state.attempts += 1
            cx.subscribe(0)
        elif state.error is None:
            cx.complete()
        else:
            cx.fail(state.error)

    def on_error(self, cx: Context, port: int, error: Exception) -> None:
        cx.state.error = error
        cx.soon("next")


def retry(retry_count: int | None = None) -> Callable[[Observable[A]], Query[A]]:
    """Subscribe again after an error, with fresh state upstream, *retry_count* times in all (by default without end).

    >>> import reliable_rx as rx
    >>> rx.throw("over").retry(2).catch(lambda error, source: rx.of(str(error))).run()
    'over'
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs: xs.pipe(rx.operators.map(lambda x: 6 / x), retry(2)), "-1-0-2-0-3")
    -1---0-2---0-3
    -6.0---3.0-#

    *State*: the attempts so far and the last error.
    """
    return Retry(retry_count)


@frozen
class RetryWithBackoff(Stage, name="retry_with_backoff"):
    passes_on = True
    resubscribes = leaves_first = True
    free = ("retry_count", "first_s", "factor", "max_s", "jitter", "reset_after_s", "seed")
    retry_count: int | None
    first_s: float
    factor: float
    max_s: float
    jitter: float
    reset_after_s: float | None
    seed: int

    @dataclass(slots=True)
    class State:
        attempts: int = 0
        began: float = 0.0

    def on_start(self, cx: Context) -> None:
        self._attempt(cx)

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        self._attempt(cx)

    def _attempt(self, cx: Context) -> None:
        cx.state.attempts += 1
        cx.state.began = cx.now
        cx.subscribe(0)

    def on_error(self, cx: Context, port: int, error: Exception) -> None:
        state = cx.state
        if self.reset_after_s is not None and cx.now - state.began >= self.reset_after_s:
            state.attempts = 1
        if self.retry_count is not None and state.attempts >= self.retry_count:
            cx.fail(error)
        else:
            cx.schedule(cx.now + self.pause_s(state.attempts), "again")

    def pause_s(self, failures: int) -> float:
        """Return how long to wait after that many failures in a row."""
        try:
            pause_s = min(self.max_s, self.first_s * self.factor ** (failures - 1))
        except OverflowError:
            pause_s = self.max_s
        chance = crc32(f"{self.seed}/{failures}".encode()) / 2**32
        return pause_s * (1.0 - self.jitter * chance)


def retry_with_backoff(
    retry_count: int | None = None,
    *,
    first_s: float,
    factor: float = 2.0,
    max_s: float,
    jitter: float = 0.0,
    reset_after_s: float | None = None,
    seed: int = 0,
) -> Callable[[Observable[A]], Query[A]]:
    """Subscribe again after an error as `retry` does, but after a pause that grows with every failure in a row.

    The n-th pause is ``first_s * factor ** (n - 1)`` seconds, at most *max_s*, on the clock of the query. *jitter*
    takes a part of it away, from 0 to that fraction; how much depends on *seed* and the attempt only, so that a replay
    waits as long. An attempt that has lasted *reset_after_s* before it fails counts as the first again.

    >>> import reliable_rx as rx
    >>> from reliable_rx.testing import diagram
    >>> failing = rx.operators.map(lambda x: 6 // x)
    >>> diagram(lambda xs: xs.pipe(failing, retry_with_backoff(first_s=2, max_s=60)), "-1-0-2-3-0-1-1-1-2-|")
    -1-0-2-3-0-1-1-1-2-|
    -6-----2-------6-3-|

    *State*: the attempts so far, when the present one began, and one timer.

    *Raises* `ValueError` for a pause that is negative or shrinks, and for a *jitter* that is no fraction.
    """
    for name, value in {"first_s": first_s, "max_s": max_s, "factor": factor, "jitter": jitter}.items():
        check_number(name, value, least=0)
    if reset_after_s is not None:
        check_number("reset_after_s", reset_after_s, least=0)
    if not factor >= 1:
        raise ValueError(f"pauses grow from nothing or more, got first_s={first_s}, factor={factor}, max_s={max_s}")
    if not 0 <= jitter <= 1:
        raise ValueError(f"jitter is a fraction of the pause, got {jitter}")
    return RetryWithBackoff(retry_count, first_s, factor, max_s, jitter, reset_after_s, seed)
