"""Stores as a kill leaves them, with all that SQLite has not tidied away."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import QueryEvaluator


def killed(work: Callable[[], None]) -> None:
    """Run *work* in a process that is killed where it ends."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


def damaged(folder: Path, part: str) -> Path:
    """Make the store of a process that was killed, and spoil the midst of one of its logs."""

    def work() -> None:
        evaluator = QueryEvaluator(SqliteStore(folder), background=False, checkpoint_interval_s=1e9)
        pushed = evaluator.push("n")
        evaluator.create("q", rx.source("n"))
        for n in range(8):
            pushed.on_next(n)
            evaluator.step()
            evaluator.checkpoint()

    killed(work)
    log = folder / f"{part}.sqlite-wal"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    return log
