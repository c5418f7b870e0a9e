"""What keeps a store from starting as it should, and what can be done about it at which price.

A store is looked at by starting it as a copy: without the demands of a strict evaluator, without queries of the app
and without sinks. What comes out are findings, each with what a repair does about it and what that gives up. Nothing is
written before somebody has agreed. Rejected: repairing the files themselves (what is damaged is refused and fallen back
from, see `checkpoint`; what is repaired here is whole, and cannot be used as it is).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hosting.evaluator import QueryEvaluator
from reliable_rx.errors import NondeterminismDetected, StoreOwned, StoreUnavailable, described

Make = Callable[[], QueryEvaluator]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with *subject*, what a repair does about it, and what that gives up.

    What *depends_on_app* may only be wrong because the sources and classes of the app are not there.
    """

    subject: str
    wrong: str
    remedy: str
    depends_on_app: bool = True

    def __str__(self) -> str:
        return f"{self.subject}: {self.wrong}\n    repair: {self.remedy}"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found, and whether the journalled turns behind the checkpoint can be taken again."""

    findings: tuple[Finding, ...]
    replays: bool

    def of(self, copy: str, original: str) -> Diagnosis:
        """Return what was found in a copy as what is wrong with the original."""
        found = (replace(each, wrong=each.wrong.replace(copy, original)) for each in self.findings)
        return replace(self, findings=tuple(found))


def diagnose(make: Make) -> Diagnosis:
    """Say what is wrong with the store on which *make* builds a fresh evaluator each time; it should be a copy.

    *Raises* `StoreOwned`, `StoreUnavailable`, and `CheckpointRefused` for a store of which no generation can be read.
    """
    try:
        return Diagnosis(tuple(found(make, passes_over=False)), replays=True)
    except (StoreOwned, StoreUnavailable):
        raise
    except Exception as error:
        cause = error
    return Diagnosis((behind(make, cause), *found(make, passes_over=True)), replays=False)


def found(make: Make, *, passes_over: bool) -> list[Finding]:
    """Start the store and name what had to be given up for that."""
    evaluator = make()
    evaluator.passes_over = passes_over
    try:
        evaluator.start()
        return [*fallen_back(evaluator), *ended(evaluator), *suspended(evaluator)]
    finally:
        evaluator.abandon()


def behind(make: Make, cause: Exception) -> Finding:
    """Say what it means to leave the turns behind the checkpoint."""
    evaluator = make()
    evaluator.passes_over = True
    try:
        evaluator.start()
        turn, last = evaluator.checkpointer.turn, evaluator.store.journal.last_turn
        lost = [each for each in evaluator.warnings if each.startswith("query ")]
    finally:
        evaluator.abandon()
    more = f"; {'; '.join(lost)}" if lost else ""
    return Finding(
        f"turns {turn + 1:,} to {last:,}",
        f"they cannot be taken again: {described(cause)}",
        f"they are passed over: their events are taken anew, and what had come of them comes again under new ids; the "
        f"ids that they used stay used{more}",
    )


def fallen_back(evaluator: QueryEvaluator) -> list[Finding]:
    figures = evaluator.recovery
    return [
        Finding("checkpoint", each, "the one before is used, and a whole one is written", depends_on_app=False)
        for each in (() if figures is None else figures.fallbacks)
    ]


def ended(evaluator: QueryEvaluator) -> list[Finding]:
    remedies = {
        True: "it ends with this error behind what it has emitted; create it again once it is mended",
        False: "its state is given up, and it ends with this error; create it again to begin anew",
    }
    return [
        Finding(f"query {name!r}", described(error), remedies[isinstance(error, NondeterminismDetected)])
        for name, error in evaluator.engine.suspended.ended.items()
    ]


def suspended(evaluator: QueryEvaluator) -> list[Finding]:
    if evaluator.engine.suspended.other_code is None:
        return []
    return [
        Finding(f"query {name!r}", kept.why, "its state is kept, and it goes on when the app that declares it starts")
        for name, kept in evaluator.engine.suspended.items()
    ]


def repair(evaluator: QueryEvaluator, diagnosis: Diagnosis) -> dict[str, Any]:
    """Do what *diagnosis* says, on a fresh evaluator that is not strict; return the status of each query."""
    evaluator.passes_over = not diagnosis.replays
    evaluator.start()
    evaluator.checkpoint(full=True)
    engine = evaluator.engine
    return {name: each.status for name, each in engine.standing.items()} | dict.fromkeys(engine.suspended, "suspended")
