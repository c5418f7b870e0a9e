"""A thread with an `asyncio` loop in it, where the coroutines that a query calls run.

A query's steps are synchronous and take microseconds, a call to a service waits for milliseconds; so the calls of
everybody run together on one loop in one daemon thread, and what they answer comes back as data. Rejected: a thread
per call (a hundred of them wait as well as a hundred coroutines, but cost a stack each), and the application's own loop
(most applications have none).

Whatever a call does, it is answered once: what it does to its own task is seen by a callback of that task and not by a
frame in it, and a loop that a call has stopped runs on.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from reliable_rx.class_of import name_of
from reliable_rx.errors import AnswerRefused, described
from reliable_rx.runtime.hub import ANSWERS_QUERY

CANCEL_S = 2.0
"""How long a cancelled call may take to clean up."""
Answer = tuple[Any, Exception | None]
Done = Callable[[Any, Exception | None], None]


class Call:
    """A call at work, which is answered once or let go of. All of it happens in the thread of its loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, make: Callable[[], Awaitable[Any]], timeout_s: float | None, done: Done
    ) -> None:
        self.loop, self.timeout_s = loop, timeout_s
        self.done: Done | None = done
        self.is_late = False
        self.task = loop.create_task(answered(make))
        self.limit = None if timeout_s is None else loop.call_later(timeout_s, self._expire)
        self.task.add_done_callback(self._ended)

    def answer(self, value: Any, error: Exception | None) -> None:
        """Tell who waits for the answer, if somebody still does."""
        done, self.done = self.done, None
        if done is not None:
            done(value, error)

    def let_go(self) -> None:
        """Cancel the call; nobody is told."""
        self.done = None
        self.task.cancel()

    def _expire(self) -> None:
        self.is_late = True
        self.limit = self.loop.call_later(CANCEL_S, self._give_up)
        self.task.cancel()

    def _give_up(self) -> None:
        """Answer for a call that goes on although it is cancelled."""
        self.answer(None, TimeoutError(f"no answer within {self.timeout_s:g} s"))

    def _ended(self, task: asyncio.Task[Answer]) -> None:
        if self.limit is not None:
            self.limit.cancel()
        if not task.cancelled():
            self.answer(*task.result())
        elif self.is_late:
            self._give_up()
        else:
            refusal = "the call was cancelled by something in it, or by another call: raise an error that says why"
            self.answer(None, AnswerRefused(refusal))


class Tasks:
    """The calls at work on one loop. Everything but `begin`, `cancel` and `end` happens in that loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.running: dict[Hashable, Call] = {}
        self.is_over = False

    def begin(self, key: Hashable, make: Callable[[], Awaitable[Any]], timeout_s: float | None, done: Done) -> None:
        """Run what *make* returns under *key*, and tell *done* in the loop's thread; from any thread."""

        def forget_and_tell(value: Any, error: Exception | None) -> None:
            self.running.pop(key, None)
            done(value, error)

        def start() -> None:
            self.running[key] = Call(self.loop, make, timeout_s, forget_and_tell)

        self.loop.call_soon_threadsafe(start)

    def cancel(self, key: Hashable) -> None:
        """Let go of a call, if it is still at work; its *done* is not called. From any thread."""

        def stop() -> None:
            call = self.running.pop(key, None)
            if call is not None:
                call.let_go()

        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(stop)

    def end(self) -> None:
        """Let go of all calls, and have `run` return. From any thread."""

        def stop() -> None:
            self.is_over = True
            for call in self.running.values():
                call.let_go()
            self.running.clear()
            self.loop.stop()

        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(stop)

    def run(self) -> None:
        """Run the loop, whatever stops it, until the `end`; then wait for what is left, and close it."""
        try:
            with asyncio.Runner(loop_factory=lambda: self.loop):
                while not self.is_over:
                    try:
                        self.loop.run_forever()
                    except (SystemExit, KeyboardInterrupt) as error:  # of a task or a callback that a call made
                        message = f"a task of a call raised {described(error)}; the calls go on"
                        self.loop.default_exception_handler({"message": message})
        finally:
            for call in list(self.running.values()):
                call.answer(None, AnswerRefused("a call has broken the loop that it ran in: let it have its own"))


async def answered(make: Callable[[], Awaitable[Any]]) -> Answer:
    """Wait for a call and return its value and error; only a cancelling comes out of here as an exception.

    It is the outermost frame of its task, whose context is its own and goes on into the tasks and threads it waits for.
    """
    ANSWERS_QUERY.set(True)
    try:
        return await awaitable(make()), None
    except asyncio.CancelledError:
        raise
    except Exception as error:
        return None, error
    except BaseException as error:
        why = f"the call raised {described(error)}, which is no error of one element: raise an Exception"
        return None, AnswerRefused(why)


def awaitable(value: Any) -> Awaitable[Any]:
    """Return *value*. *Raises* `TypeError` if nobody can wait for it."""
    if not inspect.isawaitable(value):
        raise TypeError(f"expected a coroutine function, but it returned {name_of(type(value))}: write async def")
    return value


class LoopThread:
    """A daemon thread that runs a loop from the first call on until it is closed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None
        self.current: Tasks | None = None

    def tasks(self) -> Tasks:
        """Return the tasks of the running loop, starting it if it is not (or not in this process: a fork has none)."""
        with self.lock:
            if self.current is None or self.thread is None or not self.thread.is_alive():
                self.current = Tasks(asyncio.new_event_loop())
                self.thread = threading.Thread(target=self.current.run, name=self.name, daemon=True)
                self.thread.start()
            return self.current

    def close(self, timeout_s: float) -> bool:
        """Cancel what is at work and end the thread; False if it did not let itself be ended within *timeout_s*."""
        with self.lock:
            thread, self.thread = self.thread, None
            if thread is None or self.current is None or not thread.is_alive():
                return True
            self.current.end()
        thread.join(timeout_s)
        return not thread.is_alive()


SHARED = LoopThread("reliable_rx calls")
"""Where the calls of un-hosted queries run."""
