"""A thread with an `asyncio` loop in it, where the coroutines that a query calls run.

A query's steps are synchronous and take microseconds, a call to a service waits for milliseconds; so the calls of
everybody run together on one loop in one daemon thread, and what they answer comes back as data. Rejected: a thread
per call (a hundred of them wait as well as a hundred coroutines, but cost a stack each), and the application's own loop
(most applications have none).
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from reliable_rx.errors import AnswerRefused
from reliable_rx.hub import ANSWERS_QUERY

Done = Callable[[Any, Exception | None], None]


class Tasks:
    """The calls at work on one loop. Everything but `begin` and `cancel` happens in that loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.running: dict[Hashable, asyncio.Task[None]] = {}

    def begin(self, key: Hashable, make: Callable[[], Awaitable[Any]], timeout_s: float | None, done: Done) -> None:
        """Run what *make* returns under *key*, and tell *done* in the loop's thread; from any thread."""

        async def work() -> None:
            try:
                answer = await answered(make, timeout_s)
            finally:
                self.running.pop(key, None)
            done(*answer)

        def start() -> None:
            self.running[key] = self.loop.create_task(work())

        self.loop.call_soon_threadsafe(start)

    def cancel(self, key: Hashable) -> None:
        """Let go of a call, if it is still at work; its *done* is not called. From any thread."""

        def stop() -> None:
            task = self.running.pop(key, None)
            if task is not None:
                task.cancel()

        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(stop)


async def answered(make: Callable[[], Awaitable[Any]], timeout_s: float | None) -> tuple[Any, Exception | None]:
    """Wait for a call and return its value and error; only our own cancelling comes out of here as an exception.

    It is the outermost frame of its task, whose context is its own and goes on into the tasks and threads it waits for.
    """
    ANSWERS_QUERY.set(True)
    try:
        async with asyncio.timeout(timeout_s) as limit:
            return await awaitable(make()), None
    except TimeoutError as error:
        return None, TimeoutError(f"no answer within {timeout_s:g} s") if limit.expired() else error
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return None, AnswerRefused("the call was cancelled by something in it: raise an error that says why")
    except Exception as error:
        return None, error
    except BaseException as error:
        return None, AnswerRefused(f"the call raised {error!r}, which is no error of one element: raise an Exception")


def awaitable(value: Any) -> Awaitable[Any]:
    """Return *value*. *Raises* `TypeError` if nobody can wait for it."""
    if not inspect.isawaitable(value):
        raise TypeError(f"expected a coroutine function, but it returned {type(value).__name__}: write async def")
    return value


class LoopThread:
    """A daemon thread that runs a loop from the first call on until it is closed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None
        self.current: Tasks | None = None
        self.closing: asyncio.Event | None = None

    def tasks(self) -> Tasks:
        """Return the tasks of the running loop, starting it if it is not (or not in this process: a fork has none)."""
        with self.lock:
            if self.current is None or self.thread is None or not self.thread.is_alive():
                ready = threading.Event()
                self.thread = threading.Thread(target=self._run, args=(ready,), name=self.name, daemon=True)
                self.thread.start()
                ready.wait()
            return self.current  # type: ignore[return-value]

    def _run(self, ready: threading.Event) -> None:
        asyncio.run(self._serve(ready))  # which cancels what is left, waits for it and closes the loop

    async def _serve(self, ready: threading.Event) -> None:
        self.current = Tasks(asyncio.get_running_loop())
        self.closing = asyncio.Event()
        ready.set()
        await self.closing.wait()

    def close(self, timeout_s: float) -> bool:
        """Cancel what is at work and end the thread; False if it did not let itself be ended within *timeout_s*."""
        with self.lock:
            thread, self.thread = self.thread, None
            if thread is None or self.current is None or self.closing is None or not thread.is_alive():
                return True
            self.current.loop.call_soon_threadsafe(self.closing.set)
        thread.join(timeout_s)
        return not thread.is_alive()


SHARED = LoopThread("reliable_rx calls")
"""Where the calls of un-hosted queries run."""
