"""A few threads that run very many small tasks, each of them by one thread at a time.

A task is a function that does some work and says when it wants to be called again: in so many seconds, never before it
is woken (None), or never again (`DONE`). A task that waits costs one entry in a list and no thread. A task that does
not return holds up its thread, not the others: `relieve` puts another thread in its place. Rejected: a thread per
partition (a thousand stacks for a thousand silent partitions), an event loop (operators and disks block).
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from collections import deque
from collections.abc import Callable

from hosting.reports.log import LOG
from hosting.reports.tracebacks import with_trace

DONE = -1.0
"""What a task returns that is over."""
THREADS_MAX = 64
PATIENCE = 8
Step = Callable[[], float | None]


class Task:
    """One task of a crew; made by `Crew.task`."""

    __slots__ = (
        "_again",
        "_crew",
        "_due",
        "_entry",
        "_queued",
        "_running_since",
        "_step",
        "_thread",
        "patient",
        "relieved",
    )

    def __init__(self, crew: Crew, step: Step) -> None:
        self._crew, self._step = crew, step
        self._queued = self._again = self.relieved = False
        self.patient = False
        """Whether it lets others go first, as what is only about to begin should; it comes in turn all the same."""
        self._due = self._entry = math.inf
        self._running_since: float | None = None
        self._thread = 0

    def at_work(self) -> tuple[float, int] | None:
        """Return since when it runs, and in which thread; None if it does not."""
        since = self._running_since
        return None if since is None else (since, self._thread)

    def wake(self) -> None:
        """Have it called as soon as may be; if it runs now, once more after that. Safe from any thread."""
        if not self._queued:  # a look without the lock: whoever queued it has not run it yet
            self._crew._wake(self)


class Crew:
    """*threads* that run tasks. *clock* is a steady clock in seconds.

    >>> crew, done = Crew(threads=1), threading.Event()
    >>> crew.task(lambda: done.set() or DONE).wake()
    >>> done.wait(5.0)
    True
    >>> crew.close()
    """

    def __init__(self, *, threads: int = 2, clock: Callable[[], float] = time.monotonic) -> None:
        if threads < 1:
            raise ValueError(f"a crew needs a thread at least, got {threads}")
        self._clock = clock
        self._changed = threading.Condition()
        self._ready: deque[Task] = deque()
        self._patient: deque[Task] = deque()
        self._turns = itertools.count(1)
        self._later: list[tuple[float, int, Task]] = []
        self._numbers = itertools.count()
        self._running: set[Task] = set()
        self._closed = False
        self._threads: list[threading.Thread] = []
        for _ in range(threads):
            self._hire()

    def _hire(self) -> None:
        thread = threading.Thread(target=self._work, name=f"crew {len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def task(self, step: Step) -> Task:
        """Make a task; it begins when it is woken for the first time."""
        return Task(self, step)

    def relieve(self, limit_s: float) -> int:
        """Put a new thread beside each that has been at one task for *limit_s*; return how many are stuck so."""
        with self._changed:
            stuck = [task for task in self._running if self._age(task) >= limit_s]
            for task in stuck:
                if not task.relieved and len(self._threads) < THREADS_MAX:
                    task.relieved = True
                    self._hire()
            return len(stuck)

    def _age(self, task: Task) -> float:
        since = task._running_since
        return 0.0 if since is None else self._clock() - since

    def close(self) -> None:
        """Finish what is running and what has been woken, and stop; threads that are stuck are left to themselves.

        What is woken before is called once more, so that a task which was told to let go of something does.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            stuck = {task for task in self._running if task.relieved}
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(1.0 if stuck else None)

    # ---- queueing

    def _wake(self, task: Task) -> None:
        with self._changed:
            if task._running_since is not None:
                task._again = True
            elif not task._queued:
                self._queue(task)

    def _queue(self, task: Task) -> None:
        task._queued, task._due = True, math.inf
        (self._patient if task.patient else self._ready).append(task)
        self._changed.notify()

    def _work(self) -> None:
        while (task := self._next()) is not None:
            again = self._run(task)
            if self._finish(task, again):
                return

    def _next(self) -> Task | None:
        with self._changed:
            while True:
                if not self._closed:
                    self._queue_due()
                task = self._first()
                if task is not None:
                    task._queued, task._again = False, False
                    task._running_since, task._thread = self._clock(), threading.get_ident()
                    self._running.add(task)
                    return task
                if self._closed:
                    return None
                self._changed.wait(self._later[0][0] - self._clock() if self._later else None)

    def _first(self) -> Task | None:
        """Take the next task: one in `PATIENCE` turns is for those who let others go first."""
        if self._patient and (not self._ready or next(self._turns) % PATIENCE == 0):
            return self._patient.popleft()
        return self._ready.popleft() if self._ready else None

    def _queue_due(self) -> None:
        now = self._clock()
        while self._later and self._later[0][0] <= now:
            due, _, task = heapq.heappop(self._later)
            if due == task._entry:
                task._entry = math.inf
                if task._due <= now:
                    self._queue(task)
                elif task._due < math.inf:
                    self._queue_later(task)

    def _queue_later(self, task: Task) -> None:
        """A task has one entry, at the earliest time it ever asked for; what it asked for since is seen then."""
        if task._due < task._entry:
            task._entry = task._due
            heapq.heappush(self._later, (task._due, next(self._numbers), task))

    def _run(self, task: Task) -> float | None:
        try:
            return task._step()
        except BaseException as error:  # also SystemExit out of a user's function: the thread has other tasks to run
            LOG.error("%s", with_trace("a task of the crew has failed and is given up", error))
            return DONE

    def _finish(self, task: Task, again: float | None) -> bool:
        """Put *task* where it belongs; return whether this thread has been replaced and is to go."""
        with self._changed:
            self._running.discard(task)
            task._running_since = None
            replaced, task.relieved = task.relieved, False
            if again == DONE:
                task._queued = True  # for ever: nothing wakes it any more
            elif task._again or (again == 0.0 and not self._closed):
                self._queue(task)
            elif again is not None and not self._closed:
                task._due = self._clock() + again
                self._queue_later(task)
            if replaced and not self._closed:
                self._threads.remove(threading.current_thread())
            return replaced and not self._closed
