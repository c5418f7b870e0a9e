"""The loop of an evaluator that runs by itself, and what it leaves to others when it ends or fails.

Nobody may wait for the thread that it runs in, so what it raises is an incident first. What has failed half way takes
nothing any more: pushes, creations and further steps are refused. A loop that ended between two turns can be run again,
and what is pushed meanwhile is durable: it is accepted, and told if nobody reads it.
Rejected: refusing pushes whenever no loop runs (before a start and between two bounded runs they are legal).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hosting.admission.arguments import check_outside
from hosting.evaluator.wakeups import POLL_S
from hosting.reports.unread import tell_unread
from reliable_rx import handled
from reliable_rx.class_of import is_a
from reliable_rx.errors import ReliableRxError, SourceFailed
from reliable_rx.operators.contract.arguments import check_function

if TYPE_CHECKING:
    from hosting.evaluator.evaluator import QueryEvaluator


def run(evaluator: QueryEvaluator, until: Callable[[], bool] | None) -> None:
    """Take steps until nothing can happen any more, until *until* says so, or until it is stopped or closed."""
    if until is not None:
        check_function("until", until)
    evaluator.inside.check("run")
    check_outside(evaluator.lock, evaluator.working)
    evaluator.start()
    with evaluator.lock:
        evaluator.lifecycle.begin_loop()
    noted = handled.note()
    try:
        _steps(evaluator, until)
    except Exception as error:
        if not evaluator.lifecycle.is_closing(error):
            evaluator.reporter.loop.ended(error)
            raise
    finally:
        evaluator.lifecycle.looping = False
        with evaluator.lock:
            evaluator.wakeups.tell_still()
            evaluator.reporter.at_end()
        handled.forget(noted)


def keep(evaluator: QueryEvaluator) -> None:
    """Take a checkpoint of all that was read before a source failed, so that it may be mended in any way.

    Sinks are given what came of it. What cannot be had is taken again from the journal, by the source as it was.
    """
    if evaluator.lifecycle.failure is None and evaluator.trouble is None:
        with suppress(ReliableRxError):
            if not evaluator.checkpointer.has_all:
                evaluator.checkpoint()
            evaluator.outlets.flush()


class Guard:
    """Marks an evaluator as broken when an interrupt leaves it half way: it must neither go on nor be saved.

    An error that ends its loop is told, since nobody may wait for the thread that it ends.
    """

    keeps = True
    """Whether a checkpoint keeps what was read before a source failed; a node looks first whether its lease lives."""

    def __init__(self, evaluator: QueryEvaluator) -> None:
        self.evaluator = evaluator

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None, trace: Any) -> None:
        lifecycle = self.evaluator.lifecycle
        if raised is not None and lifecycle.is_closing(raised):
            return
        if is_a(raised, Exception):
            if is_a(raised, SourceFailed) and self.keeps:
                keep(self.evaluator)
            self.evaluator.reporter.halted(raised)
        elif raised is not None and lifecycle.broken is None:
            lifecycle.broken = raised


def _steps(evaluator: QueryEvaluator, until: Callable[[], bool] | None) -> None:
    while not evaluator.lifecycle.stopping and not (until is not None and until()):
        since = evaluator.turns.now()
        if evaluator.step():
            evaluator.lock.give_way()
        elif evaluator.finished:
            evaluator.reporter.loop.finished()
            break
        else:
            failed, sources = evaluator.reporter.failed, evaluator.intake.sources
            tell_unread(evaluator.engine, evaluator.incidents, failed=failed, sources=sources)
            evaluator._wait()
            evaluator.standstill.overslept(since + POLL_S)
    if evaluator.lifecycle.stopping:
        take_last_answers(evaluator)
    evaluator.lifecycle.stopping = False
    if evaluator.trouble is None:
        evaluator.flush()


def take_last_answers(evaluator: QueryEvaluator) -> None:
    """Take the answers that come shortly, as an evaluator is stopped."""
    with evaluator.calls.last_answers() as may_come:
        while may_come() and evaluator.trouble is None:
            if not evaluator.step():
                evaluator._wait()
