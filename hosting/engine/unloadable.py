"""Queries that a store cannot give back, or that a replay has shown to differ: they end, and the others go on.

A state may pickle and not unpickle, a selector may raise when its inner sequences are opened again, a function may give
something else when it is asked again. Each is found when the store is opened, in rows or journalled turns that name
their query. Such a query takes no part in the replay; behind it a turn (`hosting.engine.failing`) ends it with what was
wrong. The ids that it had used before the crash stay used: what cannot be made again is an `Unreadable` under its id.

A query that reads the stream of another has its events from there only. So where a replay follows, what reads a query
that takes no part in it is not what it was either, and ends with it. One that merely differs goes on up to the end of
the replay, and those that read it hear of its end as of any error.

Rejected: refusing to open the store (one query would hold all others up), going on with a fresh state (silently wrong).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from checkpoint.format.named_members import FieldsDiffer
from checkpoint.format.salvage import Unreadable, unreadable_in
from hosting.engine.event_time.reorder import WAITING
from hosting.engine.hosted_query import RUNNING, Standing, TopRow
from hosting.engine.plan_names import content_in
from hosting.engine.records import INSIDE
from hosting.engine.side_outputs import NEVER
from reliable_rx.class_of import is_a
from reliable_rx.errors import CheckpointRefused, described
from reliable_rx.interrupts import let_through
from reliable_rx.names import query_of
from reliable_rx.runtime.plan import NO_LIMITS, Plan
from reliable_rx.shown import listed

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine

_GONE = ("ModuleNotFoundError", "ImportError", "AttributeError: Can't get attribute", "AttributeError: module ")
_DIFFERS = f"{FieldsDiffer.__name__}: "


def unreadable_rows(rows: Mapping[str, Mapping[Any, Any]]) -> dict[str, Exception]:
    """Return the queries of which a row holds a part that could not be read, and why."""
    found: dict[str, Exception] = {}
    for kind, place in (("top", 1), (WAITING, 1), (INSIDE, 0)):
        for key, row in rows[kind].items():
            name = key[place]
            if name in found and is_misfit(found[name]):
                continue
            for each in map(unreadable, lost_in((key, row))):
                if name not in found or is_misfit(each):
                    found[name] = each
    return found


def lost_in(value: Any) -> Iterator[Unreadable]:
    """Yield what is unreadable in *value*."""
    try:
        yield from unreadable_in(value)
    except BaseException as raised:  # a value that was read may still refuse to be looked into
        let_through(raised)


def first_lost(value: Any) -> Unreadable | None:
    return next(lost_in(value), None)


def is_misfit(error: Exception) -> TypeGuard[CheckpointRefused]:
    """Whether *error* says that a state does not fit the classes of today, which can be mended."""
    return "gone" in getattr(error, "fields", {})


def first_misfit(lost: Iterable[Unreadable]) -> CheckpointRefused | None:
    """Return what of *lost* does not fit the classes of today."""
    return next(filter(is_misfit, map(unreadable, lost)), None)


def unreadable(lost: Unreadable) -> CheckpointRefused:
    """Say that the state of a query cannot be read."""
    error = CheckpointRefused(
        f"its stored state cannot be read: {lost.kind}: {lost.reason}", what=lost.kind, where="state"
    )
    if lost.reason.startswith((*_GONE, _DIFFERS)):
        error.fields["gone"] = lost.reason if lost.reason.startswith(_DIFFERS) else lost.kind
    return error


def unloadable(error: BaseException) -> CheckpointRefused:
    """Say that a query does not come up from its stored state."""
    if is_a(error, CheckpointRefused):  # a state of another shape than its operator has today
        error.fields["gone"] = error.fields.get("what", "")
        return error
    found = CheckpointRefused(
        f"it does not come up from its stored state: {described(error)}", what=described(error), where="state"
    )
    if described(error).startswith((*_GONE, _DIFFERS)):
        found.fields["gone"] = described(error)
    found.__cause__ = error if is_a(error, Exception) else None
    return found


def blame_classes(engine: QueryEngine, changed: Sequence[str]) -> None:
    """Say of queries that do not come up from what a checkpoint has that classes have *changed*, which may be mended.

    Inner sequences are opened again by the functions that were stored, with the classes of today.
    """
    for error in engine.suspended.spoilt.values() if changed else ():
        cause = error.__cause__
        if is_a(error, CheckpointRefused) and "gone" not in error.fields and is_a(cause, Exception):
            error.fields["gone"] = (
                f"{_DIFFERS}the stored functions open its inner sequences again, which fails with {listed(changed)} as "
                f"it is today ({described(cause or error)}): put that back, have the functions call it in a way that "
                f"both versions take, stop, and change it then"
            )


def lose_answers(engine: QueryEngine) -> None:
    """Let queries whose recorded answers a replay cannot read take no further part."""
    while engine.calls.unreadable:
        name, error = engine.calls.unreadable.popitem()
        if name not in engine.suspended.spoilt:
            if error.fields["what"].startswith((*_GONE, _DIFFERS)):
                error.fields["gone"] = error.fields["what"]
            engine.suspended.spoilt[name] = error
            silence(engine, name)


def needed(what: str) -> str:
    if what.startswith(_DIFFERS):
        return f"is of an earlier class: {what.removeprefix(_DIFFERS)}"
    needs = f"what cannot be imported ({what})" if what.startswith(_GONE) else f"{what}, which cannot be imported"
    return f"needs {needs}: bring it back (a class that has moved needs its old name too)"


def blank(engine: QueryEngine, top: TopRow) -> None:
    """Put a query back without its state, so that its name, its stream and its ids are there."""
    plan, keys = engine.plans.by_id.get(top.plan), top.keys
    declared = engine.suspended.declared.get(top.name)
    if plan is None and declared is not None and content_in(declared.plan) == content_in(top.plan):
        plan = declared.code
    if plan is None:  # another one than the app declares, which is created anew then
        plan, keys = idle_plan(engine), ()
    standing = engine.standing[top.name] = Standing(plan, engine, top.name, policy=top.policy, keys=keys)
    standing.restore(top)
    standing.saved = True


def idle_plan(engine: QueryEngine) -> Plan:
    """Return the plan of a query that never does anything."""
    return engine.plans.compile(NEVER, NO_LIMITS)[0]


def silence(engine: QueryEngine, name: str) -> None:
    """Have a query take no part in anything, whatever of it has come up."""
    standing = engine.standing[name]
    clock = standing.clock
    moving, engine.moving = engine.moving, True
    try:
        standing.dispose()
    finally:
        engine.moving = moving
    if clock is not None and standing.status == RUNNING:
        clock.close()
    standing.states, standing.gathered = standing.plan.blank.copy(), None


def spread(engine: QueryEngine) -> None:
    """Silence what reads a query that takes no part in the replay: it would miss events, and know nothing of it."""
    spoilt = engine.suspended.spoilt
    waiting = list(spoilt)
    while waiting:
        source = waiting.pop()
        for name, standing in list(engine.standing.items()):
            if name not in spoilt and standing.status == RUNNING and source in standing.plan.sources:
                spoilt[name] = CheckpointRefused(
                    f"it reads {source!r}, whose outputs before the crash cannot be had again", what=source, where=name
                )
                silence(engine, name)
                waiting.append(name)


def is_silent(engine: QueryEngine, stream: str) -> bool:
    """Whether *stream* is of a query that takes no part in the replay."""
    return query_of(stream) in engine.suspended.spoilt
