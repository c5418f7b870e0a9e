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
from hosting.evaluator import wakeups as idling
from hosting.reports.unread import tell_unread
from reliable_rx import handled
from reliable_rx.class_of import is_a
from reliable_rx.errors import ReliableRxError, SourceFailed, TooLate, described
from reliable_rx.operators.contract.arguments import check_function

if TYPE_CHECKING:
    from hosting.evaluator.evaluator import QueryEvaluator

AFRESH = "close it, and make another one on the same store, which takes the turn at work anew"


def run(evaluator: QueryEvaluator, until: Callable[[], bool] | None) -> None:
    """Take steps until nothing can happen any more, until *until* says so, or until it is stopped or closed."""
    if until is not None:
        check_function("until", until)
    evaluator.inside.check("run")
    check_outside(evaluator.lock, evaluator.working)
    evaluator.start()
    begin(evaluator)
    noted = handled.note()
    try:
        _steps(evaluator, until)
    except Exception as error:
        if not is_closing(evaluator, error):
            evaluator.reporter.loop.ended(error)
            raise
    finally:
        evaluator.looping = False
        with evaluator.lock:
            idling.tell_still(evaluator)
            evaluator.reporter.at_end()
        handled.forget(noted)


def is_closing(evaluator: QueryEvaluator, error: BaseException) -> bool:
    """Whether *error* only says that another thread has closed *evaluator*, which ends its loop as a stop does."""
    return evaluator.closed and is_a(error, TooLate)


def keep(evaluator: QueryEvaluator) -> None:
    """Take a checkpoint of all that was read before a source failed, so that it may be mended in any way.

    Sinks are given what came of it. What cannot be had is taken again from the journal, by the source as it was.
    """
    if failure_of(evaluator) is None and evaluator.trouble is None:
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
        if raised is not None and is_closing(self.evaluator, raised):
            return
        if is_a(raised, Exception):
            if is_a(raised, SourceFailed) and self.keeps:
                keep(self.evaluator)
            self.evaluator.reporter.halted(raised)
        elif raised is not None and self.evaluator.broken is None:
            self.evaluator.broken = raised


def begin(evaluator: QueryEvaluator) -> None:
    """*Raises* `TooLate` if another thread runs the loop: `stop` would end one of the two."""
    with evaluator.lock:
        if evaluator.looping:
            raise TooLate(
                "run was called while another thread runs this evaluator: let that one go on, or have it end with "
                "stop() and join it first"
            )
        evaluator.looping = True


def _steps(evaluator: QueryEvaluator, until: Callable[[], bool] | None) -> None:
    while not evaluator.stopping and not (until is not None and until()):
        since = evaluator._now()
        if evaluator.step():
            evaluator.lock.give_way()
        elif evaluator.finished:
            evaluator.reporter.loop.finished()
            break
        else:
            failed, sources = evaluator.reporter.failed, evaluator.intake.sources
            tell_unread(evaluator.engine, evaluator.incidents, failed=failed, sources=sources)
            evaluator._wait()
            idling.overslept(evaluator, since + idling.POLL_S)
    if evaluator.stopping:
        take_last_answers(evaluator)
    evaluator.stopping = False
    if evaluator.trouble is None:
        evaluator.flush()


def take_last_answers(evaluator: QueryEvaluator) -> None:
    """Take the answers that come shortly, as an evaluator is stopped."""
    with evaluator.calls.last_answers() as may_come:
        while may_come() and evaluator.trouble is None:
            if not evaluator.step():
                evaluator._wait()


def failure_of(evaluator: QueryEvaluator) -> BaseException | None:
    """Return what has failed half way; None while the evaluator can go on."""
    if evaluator.broken is not None:
        return evaluator.broken
    journal = evaluator.journal_worker.failure
    return evaluator.checkpointer.worker.failure if journal is None else journal


def raise_failures(evaluator: QueryEvaluator) -> None:
    """*Raises* what has failed half way, which has left an engine that must neither go on nor be saved."""
    failure = failure_of(evaluator)
    if failure is None:  # as for each step
        return
    if is_a(failure, ReliableRxError):
        raise failure
    raise TooLate(f"this evaluator has failed with {described(failure)}: {AFRESH}") from failure


def check_taken(evaluator: QueryEvaluator, name: str) -> None:
    """*Raises* `TooLate` for what is pushed into *name* while the evaluator that reads it has failed."""
    if evaluator.inside.is_mine():
        evaluator.inside.check(f"a push into {name!r}")
    if (
        evaluator.broken is None
        and evaluator.journal_worker.failure is None
        and evaluator.checkpointer.worker.failure is None
    ):  # as for each push
        return
    failure = failure_of(evaluator)
    if failure is not None:
        raise TooLate(
            f"what is pushed into {name!r} would be read by nobody, since this evaluator has failed with "
            f"{described(failure)}: {AFRESH}, and push there"
        ) from failure
