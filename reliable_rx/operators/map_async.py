"""Calls out of a query: a database, a service on the network, a model that is asked per element.

A query's functions must be pure, because a replay runs them again. A call to the outside is not, so it is no step of
the query: the operator only says what is wanted, the host makes the call, and the *answer* comes back as a turn of its
own, which is written to the journal like an event. A replay reads the answer there and calls nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from reactivex import Observable

from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.merge_concat import check_queue
from reliable_rx.query.query import Query

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)
B = TypeVar("B")

Asked = tuple[Any, Any]  # the element, and where it came from
AHEAD = 4
"""How many times *concurrency* may wait, or be answered before its turn, before no more events are taken."""


@frozen
class MapAsync(Stage, name="map_async"):
    calls_out = True
    coroutine: Callable[[Any], Awaitable[Any]]
    free = ("concurrency", "ordered", "timeout_s")
    concurrency: int = 8
    ordered: bool = True
    timeout_s: float | None = None

    @dataclass(slots=True)
    class State:
        waiting: deque[Asked] = field(default_factory=deque)
        asked: dict[Hashable, Asked] = field(default_factory=dict)
        early: dict[Hashable, tuple[Any, Exception | None]] = field(default_factory=dict)
        stopped: bool = False

    def in_flight(self, state: State) -> Mapping[Hashable, Any]:
        """Return the elements whose calls have not been answered, by their calls."""
        return {call: value for call, (value, _) in state.asked.items() if call not in state.early}

    def element(self, state: State, call: Hashable) -> Any:
        """Return the element that *call* is for."""
        return state.asked[call][0]

    def is_full(self, state: State) -> bool:
        """Whether so much waits that no more events should be taken."""
        return len(state.waiting) >= AHEAD * self.concurrency

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        cx.state.waiting.append((value, cx.origin(value)))
        check_queue(cx.state.waiting, cx)
        self._ask(cx)

    def on_answer(self, cx: Context, call: Hashable, value: Any, error: Exception | None) -> None:
        state = cx.state
        state.early[call] = (value, error)
        self._pass_on(cx, call)
        if cx.goes_on(state):
            self._ask(cx)
            self._complete_if_idle(cx)

    def on_adopted(self, cx: Context, before: Before) -> None:
        cx.state.stopped = not cx.runs(0)

    def on_completed(self, cx: Context, port: int) -> None:
        cx.state.stopped = True
        self._complete_if_idle(cx)

    def _ask(self, cx: Context) -> None:
        """Call for as many of those that wait as may be in flight."""
        state = cx.state
        while (
            state.waiting
            and len(state.asked) - len(state.early) < self.concurrency
            and len(state.asked) < AHEAD * self.concurrency
        ):
            value, origin = state.waiting.popleft()
            state.asked[cx.call(value)] = (value, origin)
        cx.hold(self.is_full(state))

    def _pass_on(self, cx: Context, call: Hashable) -> None:
        """Emit the answer to *call*, or those whose turn has come."""
        state = cx.state
        while cx.goes_on(state):
            if self.ordered or call not in state.early:
                call = next(iter(state.asked if self.ordered else state.early), None)
            if call not in state.early:
                return
            value, error = state.early.pop(call)
            _, origin = state.asked.pop(call)
            cx.answered(origin, value, error)

    def _complete_if_idle(self, cx: Context) -> None:
        if cx.state.stopped and not cx.state.waiting and not cx.state.asked:
            cx.complete()


def map_async(
    coroutine: Callable[[A], Awaitable[B]],
    *,
    concurrency: int = 8,
    ordered: bool = True,
    timeout_s: float | None = None,
) -> Callable[[Observable[A]], Query[B]]:
    """Call an async function with each element and emit what it returns.

    >>> import asyncio
    >>> import reliable_rx as rx
    >>> async def price(flight):
    ...     await asyncio.sleep(0)
    ...     return flight * 100
    >>> rx.of(1, 2, 3).map_async(price, concurrency=2).to_list().run()
    [100, 200, 300]

    It may do what no other function in a query may: look at the world. At most *concurrency* calls are in flight;
    their results come in the order of the elements, or, if not *ordered*, as they are answered. A call that takes
    longer than *timeout_s* is cancelled, and its element's error is a `TimeoutError`. An error of a call ends the
    sequence as an error in a mapper would, in its element's place; hosted with a policy, only its element is left out.

    Hosted, an answer is journalled before anybody sees it, and a call whose answer is in the journal is never made
    again. A call that was in flight when the process died **is made again** after the restart: what it asks for must
    bear being asked twice (a read, or a write under a key of its own). Answers must pickle, or they are
    `AnswerRefused`. While ``4 * concurrency`` elements wait, the evaluator takes no events.

    Un-hosted the calls run on a loop in a thread of their own, or on that of an `AsyncIOScheduler` given to
    ``subscribe``.

    *State*: the elements that wait, bounded by `Limits.queue_items_max`, those in flight, and at most
    ``4 * concurrency`` answers that wait for an earlier one.
    *Raises* `TypeError` and `ValueError` for arguments that make no sense.
    """
    if not callable(coroutine):
        raise TypeError(f"map_async takes an async function of one element, got {coroutine!r}")
    if isinstance(concurrency, bool) or not isinstance(concurrency, int):
        raise TypeError(f"concurrency is how many calls may be in flight, a whole number, got {concurrency!r}")
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, got {concurrency}: nothing would ever be called")
    if timeout_s is not None and not isinstance(timeout_s, (int, float)):
        raise TypeError(f"timeout_s must be a number of seconds, or None for no limit, got {timeout_s!r}")
    if timeout_s is not None and not timeout_s > 0:
        raise ValueError(f"timeout_s must be more than 0 seconds, or None for no limit, got {timeout_s!r}")
    return MapAsync(coroutine, concurrency, ordered, timeout_s)
