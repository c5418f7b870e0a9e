"""One worker thread that does durable work in order, so that the evaluator's loop need not wait for disks.

SQLite lets go of the interpreter while it writes. A task that fails because the store is unavailable is tried
again, for ever and with growing pauses, until it works or the worker is closed; meanwhile `trouble` says why
nothing moves.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from reliable_rx.errors import StoreUnavailable

RETRY_S = 0.05
RETRY_S_MAX = 2.0


class Worker:
    """Runs tasks one after the other, in a thread or (for deterministic tests) at once."""

    def __init__(self, name: str, *, wake: Callable[[], None], threaded: bool) -> None:
        self.wake = wake
        self.threaded = threaded
        self.trouble: StoreUnavailable | None = None
        self.failure: BaseException | None = None
        self.tasks: deque[Callable[[], Any]] = deque()
        self.changed = threading.Condition()
        self.closing = False
        self.thread = threading.Thread(target=self._run, name=name, daemon=True) if threaded else None
        if self.thread is not None:
            self.thread.start()

    @property
    def busy(self) -> bool:
        return bool(self.tasks)

    def submit(self, task: Callable[[], Any]) -> None:
        """Run *task* after those before it."""
        with self.changed:
            self.tasks.append(task)
            self.changed.notify_all()
        if self.thread is None:
            self.retry()

    def retry(self) -> None:
        """Without a thread: do what can be done now."""
        while self.tasks and self._try(self.tasks[0]):
            self.tasks.popleft()

    def _run(self) -> None:
        pause = RETRY_S
        while True:
            with self.changed:
                while not self.tasks and not self.closing:
                    self.changed.wait()
                if not self.tasks or (self.closing and self.trouble is not None):
                    return
                task = self.tasks[0]
            if self._try(task):
                pause = RETRY_S
                with self.changed:
                    self.tasks.popleft()
                    self.changed.notify_all()
            elif self.failure is not None:
                return
            else:
                with self.changed:
                    self.changed.wait(pause)
                pause = min(pause * 2, RETRY_S_MAX)
            self.wake()

    def _try(self, task: Callable[[], Any]) -> bool:
        try:
            task()
        except StoreUnavailable as error:
            self.trouble = error
            return False
        except BaseException as error:
            self.failure = error
            self.wake()
            return False
        self.trouble = None
        return True

    def drain(self, timeout_s: float | None = None) -> bool:
        """Wait until everything submitted is done; False if the store did not let it."""
        if self.thread is None:
            self.retry()
            return not self.tasks
        with self.changed:
            self.changed.wait_for(lambda: not self.tasks or self.failure is not None, timeout_s)
            return not self.tasks

    def close(self) -> None:
        """Finish what can be finished and stop."""
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        if self.thread is not None:
            self.thread.join()
