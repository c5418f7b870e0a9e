"""Disposing of a query: its state is forgotten, and its stream ends for those that read it, who are named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosting.engine.cycles import there_are
from hosting.engine.turns import Dispose
from hosting.evaluator import interpreters
from reliable_rx.names import check_query, query_of

if TYPE_CHECKING:
    from hosting.evaluator.evaluator import QueryEvaluator


def dispose(evaluator: QueryEvaluator, name: str) -> None:
    """End the query *name*. *Raises* `KeyError` if there is none."""
    with evaluator.inside.change("dispose"):
        engine = evaluator.engine
        hosted = engine.standing, engine.suspended
        if isinstance(name, str) and any(query_of(name) in there for there in (evaluator.declared, *hosted)):
            check_query(name)  # else it is all that is left of that one
        if name not in engine.standing and name not in engine.suspended:
            raise KeyError(f"no query is called {name!r}; {there_are(engine.standing, name)}")
        evaluator.reporter.told_disposed(name)
        evaluator._take(Dispose(name, evaluator._now()))
        interpreters.resolve(evaluator, name)
    evaluator.flush()
