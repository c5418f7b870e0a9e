"""What an evaluator does about queries that a store cannot give back (`hosting.engine.unloadable`).

It refuses what a strict start may not give up, has their ids go on behind those of the first run, and ends them behind
the replay.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from checkpoint.format.salvage import Unreadable
from hosting.engine import unloadable
from hosting.engine.failing import forget_state
from hosting.engine.hosted_query import RUNNING
from hosting.engine.turns import Fail, Output
from hosting.engine.unloadable import needed
from hosting.evaluator.group_commit import Digests
from hosting.reports.store_commands import or_repair_it
from reliable_rx.errors import CheckpointRefused, described

if TYPE_CHECKING:
    from hosting.evaluator.evaluator import QueryEvaluator


def lose_answers(evaluator: QueryEvaluator) -> None:
    """Let queries whose recorded answers a replay cannot read take no further part. *Raises* as `check_names`."""
    unloadable.lose_answers(evaluator.engine)
    check_names(evaluator)
    unloadable.spread(evaluator.engine)


def check_names(evaluator: QueryEvaluator) -> None:
    """*Raises* `CheckpointRefused` if a strict evaluator would give up a state because today's code does not fit it."""
    for name, error in evaluator.engine.suspended.spoilt.items():
        check_name(evaluator, name, error)


def check_name(evaluator: QueryEvaluator, name: str, error: Exception | None) -> None:
    """*Raises* the same if the state of the query *name* is given up for such an *error*."""
    what = getattr(error, "fields", {}).get("gone") if evaluator.strict else None
    if error is None or not what:
        return
    if error.__dict__.get("fields", {}).get("where") != "state":
        raise error
    raise CheckpointRefused(
        f"the state of {name!r} {needed(what)}, or give up the state of this query with strict=False "
        f"(App(strict=False)){or_repair_it(evaluator.store)}",
        what=what,
        where=name,
    ) from error


def fill(evaluator: QueryEvaluator, written: Digests, names: Iterable[str], *, ended: Container[str] = ()) -> None:
    """Let the ids of *names* go on where the first run had them, with what stands for their values.

    The next id of those that have *ended* is for their end.
    """
    for name in names:
        next_id, at = written[name][1], evaluator.engine.emitted(name)
        if next_id > at + (name in ended):
            lost = Unreadable(f"value of {name!r}", "it was emitted before a crash, and cannot be made again")
            evaluator.streams.append([Output(name, at, [lost] * (next_id - at))])
            evaluator.engine.continue_ids(name, next_id)
            first, _ = evaluator.engine.suspended.unmade.get(name, (at, at))
            evaluator.engine.suspended.unmade[name] = first, next_id


def settle(evaluator: QueryEvaluator) -> None:
    """Behind the replay: end what could not be had again."""
    engine = evaluator.engine
    differing = engine.suspended.differing if evaluator.strict else {}
    spoilt, engine.suspended.spoilt = {**engine.suspended.spoilt, **differing}, {}
    engine.suspended.ended = spoilt
    for name, error in spoilt.items():
        standing = engine.standing.get(name)
        if standing is None:
            continue
        if standing.status == RUNNING:
            evaluator.turns.take(Fail(name, error, evaluator.turns.now()))
        else:
            forget_state(engine, standing)
            evaluator.incidents.report("replay", name, f"{described(error)}; it has ended, and stays so")
    if spoilt:
        evaluator.checkpointer.since_full = None  # the rows that could not be read are in the chain until then
