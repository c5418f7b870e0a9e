"""Durable work behind a loop is done, in order, however few threads are lent to those who wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import cycle, permutations
from typing import Any

import pytest
from lanes import crossed

from hosting.evaluator.serial_executor import OwnThread, Worker

CHAIN = 4
DEADLINE_S = 60.0


class Held:
    """So many threads, lent in turn; what is asked of them begins when all has been asked."""

    def __init__(self, count: int) -> None:
        self.threads = [OwnThread(f"lent {number}") for number in range(count)]
        self.next = cycle(self.threads)
        self.open = threading.Event()
        for each in self.threads:
            each.lend(self.open.wait)

    def lend(self, function: Callable[[], Any]) -> None:
        next(self.next).lend(function)

    def close(self) -> None:
        for each in self.threads:
            each.close()


@pytest.mark.parametrize("order, threads", crossed([*permutations(range(CHAIN))], [1, 2, 3], nightly=1), ids=str)
def test_workers_that_wait_for_each_other_need_no_thread_each(order: tuple[int, ...], threads: int) -> None:
    """A checkpoint waits for its journal: if all threads have a checkpoint, somebody still does the journals."""
    held, done, ended = Held(threads), [], threading.Event()
    workers = [Worker(wake=lambda: None, lend=held.lend) for _ in range(CHAIN)]

    def task(number: int) -> None:
        if number:
            workers[number - 1].drain()
        done.append(number)
        if number == CHAIN - 1:
            ended.set()

    for number in order:
        workers[number].submit(lambda number=number: task(number))
    held.open.set()
    assert ended.wait(DEADLINE_S), f"only {done} were done"
    held.close()
    assert done == list(range(CHAIN))


def test_who_waits_does_what_nobody_has_begun() -> None:
    """A thread that was asked and has not come yet does not keep a task from being done, nor does it twice."""
    held, done = Held(1), []
    worker = Worker(wake=lambda: None, lend=held.lend)
    for number in range(3):
        worker.submit(lambda number=number: done.append((number, threading.current_thread().name)))
    assert worker.drain()
    held.open.set()
    held.close()
    here = threading.current_thread().name
    assert done == [(0, here), (1, here), (2, here)]
    assert not worker.busy


def test_what_nobody_has_begun_can_be_forgotten() -> None:
    """Asking for a thread does not begin a task."""
    held, done = Held(1), []
    worker = Worker(wake=lambda: None, lend=held.lend)
    worker.submit(lambda: done.append("begun"))
    worker.forget()
    held.open.set()
    held.close()
    assert (done, worker.busy) == ([], False)
