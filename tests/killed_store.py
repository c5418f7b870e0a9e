"""Stores as a kill leaves them, with all that SQLite has not tidied away."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable


def killed(work: Callable[[], None]) -> None:
    """Run *work* in a process that is killed where it ends."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
