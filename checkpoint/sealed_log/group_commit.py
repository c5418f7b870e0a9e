"""Many threads that want something durable, one transaction for all of them: group commit without a thread of our own.

Whoever comes first commits for all who wait meanwhile; they find it done when the lock is theirs. Rejected: a writer
thread (a queue that needs a bound, a shutdown, and errors to be handed over).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from reliable_rx.errors import StoreUnavailable


@dataclass(slots=True, eq=False, kw_only=True)
class Asked:
    """What one thread wants committed; *error* says why it was not."""

    error: BaseException | None = None
    done: bool = False


A = TypeVar("A", bound=Asked)


class GroupCommit(Generic[A]):
    """Has *commit* called with all that wait, by one thread at a time, and then *afterwards*. *where* is for people.

    `lock` is held meanwhile, and keeps commits away from whoever takes it.

    >>> committing = GroupCommit("here", lambda batch: print(len(batch), "at once"))
    >>> committing.do(Asked())
    1 at once
    """

    def __init__(
        self, where: str, commit: Callable[[Sequence[A]], None], *, afterwards: Callable[[], None] = lambda: None
    ) -> None:
        self.lock = threading.Lock()
        self._where, self._commit, self._afterwards = where, commit, afterwards
        self._pending: list[A] = []
        self._pending_lock = threading.Lock()

    def do(self, asked: A) -> None:
        """Return when it is committed. *Raises* what `commit` has raised, or what it has left as its error."""
        with self._pending_lock:
            self._pending.append(asked)
        with self.lock:
            if not asked.done:
                self._commit_all()
        if asked.error is not None:
            raise asked.error

    def _commit_all(self) -> None:
        with self._pending_lock:
            batch, self._pending = self._pending, []
        try:
            self._commit(batch)
        except Exception as error:
            for each in batch:
                each.error = error
        except BaseException:
            # An interrupt belongs to this thread; the others only learn that nothing was promised to them.
            for each in batch:
                each.error = StoreUnavailable(f"{self._where}: the commit was interrupted; do it again")
            raise
        finally:
            for each in batch:
                each.done = True
        self._afterwards()
