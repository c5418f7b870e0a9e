"""Disposal of queries and of what they leave: state is forgotten, streams end for their readers, and are deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hosting.engine.cycles import there_are
from hosting.engine.turns import Dispose
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
        evaluator.turns.take(Dispose(name, evaluator.turns.now(), ending=() if evaluator.lifecycle.mends else None))
        evaluator.interpreters.resolve(name)
    evaluator.flush()


def forget(evaluator: QueryEvaluator, name: str) -> None:
    """Delete the stream of a query that is gone; return when that is durable."""
    with evaluator.inside.change("forget"):
        evaluator.start()
        if name in evaluator.engine.standing or name in evaluator.engine.suspended:
            raise ValueError(f"the query {name!r} is still there: call evaluator.dispose({query_of(name)!r}) first")
        evaluator.checkpoint()  # has what has ended just now
        retired = evaluator.streams.retired
        if name not in retired.kept:
            what = f"no stream {name!r} is kept of a query that is gone"
            if name in evaluator.intake.sources:
                what += ", as it is a source"
            raise KeyError(f"{what}; of those that are kept {there_are(retired.kept, name)}")
        if evaluator.streams.is_read(name):
            who = ", ".join(map(repr, evaluator.streams[name].holders)) or "an observer"
            how = f"evaluator.holders.release({name!r}, holder), or dispose of the subscription"
            raise ValueError(f"the stream {name!r} is still read, by {who}; let it go first, with {how}")
        retired.unwanted.add(name)
        evaluator.checkpoint()
