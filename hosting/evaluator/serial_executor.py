"""One queue of durable work done in order behind an evaluator's loop, so that the loop need not wait for disks.

SQLite lets go of the interpreter while it writes. A task that fails because the store is unavailable is tried
again, for ever and with growing pauses, until it works or the worker is closed; meanwhile `trouble` says why
nothing moves.

A worker has no thread: it borrows one, from a thread of its evaluator's own or from a pool that many evaluators share,
for as long as it has tasks. Whoever waits for it does the tasks himself if nobody is at them, also if a thread was
asked for and has not come yet, so that a pool whose threads all wait for each other goes on; so does one that closes an
evaluator while the interpreter ends, when no thread can begin and those there are stand still. Rejected: a waiting
thread per worker (two thousand of them for a thousand partitions that sleep).
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Any

from reliable_rx.errors import StoreUnavailable, TooLate

RETRY_S = 0.05
RETRY_S_MAX = 2.0
Task = Callable[[], Any]
Lend = Callable[[Task], object]
"""Have a function run in some other thread, soon."""


class OwnThread:
    """A thread that starts with the first function it is to run, and ends with `close`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.thread: threading.Thread | None = None
        self.functions: queue.SimpleQueue[Task | None] = queue.SimpleQueue()

    def lend(self, function: Task) -> None:
        """Run *function* after those before it."""
        if self.thread is None:
            thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            if not begins(thread):
                return
            self.thread = thread
        self.functions.put(function)

    def _run(self) -> None:
        while (function := self.functions.get()) is not None:
            function()

    def close(self) -> None:
        """Run what has been given, then end."""
        if self.thread is not None and not sys.is_finalizing():
            self.functions.put(None)
            self.thread.join()


def begins(thread: threading.Thread) -> bool:
    """Start *thread*; False if the interpreter is about to end, so that none can begin any more."""
    if sys.is_finalizing():  # 3.11 would wait for it for ever
        return False
    try:
        thread.start()
    except RuntimeError as error:
        if "interpreter shutdown" not in str(error):
            raise
        return False
    return True


def lenders(*names: str, lend: Lend | None, background: bool) -> tuple[list[OwnThread], list[Lend | None]]:
    """Return who lends threads to as many workers: *lend*, or a thread of its own for each, or nobody; and these."""
    if lend is not None or not background:
        return [], [lend] * len(names)
    threads = [OwnThread(name) for name in names]
    return threads, [each.lend for each in threads]


class Worker:
    """Runs tasks one after the other: in threads that are lent, or without *lend* at once."""

    def __init__(self, *, wake: Callable[[], None], lend: Lend | None) -> None:
        self.wake = wake
        self.lend = lend
        self.trouble: StoreUnavailable | None = None
        self.failure: BaseException | None = None
        self.told: Callable[[StoreUnavailable | None], object] = lambda trouble: None
        """Is told of trouble, each time, and with None that it is over."""
        self.tasks: deque[Task] = deque()
        self.changed = threading.Condition()
        self.asked = self.taken = False
        self.at_work = 0  # the thread that runs a task
        self.pause = RETRY_S
        self.retry_at = 0.0

    @property
    def threaded(self) -> bool:
        return self.lend is not None

    @property
    def busy(self) -> bool:
        return bool(self.tasks)

    def submit(self, task: Task) -> None:
        """Run *task* after those before it."""
        with self.changed:
            self.tasks.append(task)
        self.retry()

    def retry(self) -> None:
        """Have done what can be done now; called again and again while there is trouble."""
        if self.lend is None:
            self._work()
        elif self.tasks and self.failure is None and not self._pausing() and self._ask():
            self.lend(self._come)

    def _pausing(self) -> bool:
        return self.trouble is not None and time.monotonic() < self.retry_at

    def _ask(self) -> bool:
        """Be the one who asks for a thread, unless somebody has or is at the tasks."""
        with self.changed:
            mine = not (self.asked or self.taken)
            self.asked = self.asked or mine
            return mine

    def _come(self) -> None:
        """In a lent thread: do the tasks, unless whoever waited for them has begun."""
        with self.changed:
            self.asked = False
        if self.tasks and self.failure is None and self._take():
            self._run()

    def _take(self) -> bool:
        """Be the one who does the tasks, unless somebody is."""
        with self.changed:
            mine, self.taken = not self.taken, True
            return mine

    def _run(self) -> None:
        """Do all tasks there are, also those that come meanwhile."""
        while True:
            self._work()
            with self.changed:
                self.taken = bool(self.tasks) and self.failure is None and self.trouble is None
                self.changed.notify_all()
                taken = self.taken
            self.wake()
            if not taken:
                return

    def _work(self) -> None:
        while self.tasks and self.failure is None and self._try(self.tasks[0]):
            self.tasks.popleft()
            if self.lend is not None:
                self.wake()

    def _try(self, task: Task) -> bool:
        self.at_work = get_ident()
        try:
            task()
        except StoreUnavailable as error:
            self.trouble = error
            self.told(error)
            self.retry_at = time.monotonic() + self.pause
            self.pause = min(self.pause * 2, RETRY_S_MAX)
            return False
        except BaseException as error:
            self.failure = error
            self.wake()
            return False
        finally:
            self.at_work = 0
        if self.trouble is not None:
            self.trouble, self.pause = None, RETRY_S
            self.told(None)
        return True

    def drain(self, timeout_s: float | None = None) -> bool:
        """Return once everything submitted is done; False if the store did not let it in time."""
        if self.lend is None:
            self._work()
            return not self.tasks
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while self.tasks and self.failure is None:
            left_s = None if until is None else until - time.monotonic()
            if left_s is not None and left_s <= 0:
                break
            if not self._pausing() and self._take():
                self._run()
            else:
                self._wait(left_s)
        return not self.tasks

    def _wait(self, left_s: float | None) -> None:
        if self.taken and sys.is_finalizing():
            raise too_late("to wait for what is being written")
        pause_s = max(0.001, self.retry_at - time.monotonic()) if self.trouble is not None else None
        both = [each for each in (left_s, pause_s) if each is not None]
        with self.changed:
            if self.tasks and (self.taken or self.trouble is not None):
                self.changed.wait(min(both, default=None))

    def forget(self) -> None:
        """Drop what nobody has begun: it is not to be done any more."""
        with self.changed:
            while len(self.tasks) > self.taken:
                self.tasks.pop()

    def close(self) -> None:
        """Finish what can be finished now."""
        if self.lend is None:
            return
        while self.tasks and self.failure is None and self.trouble is None:
            if self._take():
                self._run()
            else:
                self._wait(None)
        with self.changed:
            if self.taken and sys.is_finalizing():
                raise too_late("to wait for what is being written")
            self.changed.wait_for(lambda: not self.taken)


def too_late(what: str) -> TooLate:
    """Say that *what* cannot be any more, since the interpreter ends and its threads stand still."""
    return TooLate(
        f"the interpreter ends, and it is too late {what}: what was durable is in the store; close the evaluator "
        f"before the program ends (with QueryEvaluator(...) as evaluator)"
    )
