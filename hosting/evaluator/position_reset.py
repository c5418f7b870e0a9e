"""Reading again from somewhere else: the one way back, for people who know why.

The queries forget their state, since it holds what lies behind the position; their outputs go on under the ids that
follow, since whoever has the earlier ones has them. It is not a turn: a checkpoint is taken at once, and before that
nothing has happened. Whoever asked for it (an offset store that was reset) asks again until it is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hosting.engine.turns import Dispose
from reliable_rx.errors import SourceFailed

if TYPE_CHECKING:
    from hosting.evaluator.evaluator import QueryEvaluator


def rewind(evaluator: QueryEvaluator, positions: Mapping[tuple[str, str], int]) -> None:
    """Forget the state of all queries and go on at *positions*; durable when this returns.

    *Raises* `SourceFailed` for a partition that is not declared, and then nothing has changed.
    """
    with evaluator.lock:
        evaluator.start()
        for key in positions:
            _check_declared(evaluator, *key)
        evaluator.flush()
        for name in list(evaluator.engine.standing):
            evaluator.turns.take(Dispose(name, evaluator.turns.now(), anew=name in evaluator.declared))
        evaluator.intake.move(positions)
        for source, partition in positions:
            evaluator.engine.live.setdefault(source, set()).add(partition)
            evaluator.engine.failures.pop(source, None)
        for appeared in evaluator.intake.appeared():  # what has come behind an end that is none any more
            evaluator.turns.take(appeared)
        evaluator.creation.create_declared(but=())
        evaluator.checkpoint(full=True)


def _check_declared(evaluator: QueryEvaluator, source: str, partition: str) -> None:
    if (source, partition) not in evaluator.intake.partitions:
        what = f"source {source!r} has no partition {partition!r} here, so it cannot be read again"
        raise SourceFailed(what, source=source, partition=partition)
