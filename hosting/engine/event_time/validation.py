"""Which queries can have a clock of their own, over which sources, and whether they look at it event by event."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from hosting.engine.hosted_query import RUNNING, Standing
from reliable_rx.errors import QueryRefused
from reliable_rx.event_time import EventTime
from reliable_rx.interrupts import let_through
from reliable_rx.operators.contract.operator import Stage
from reliable_rx.query.query import Query
from reliable_rx.query.symbols import Symbol
from reliable_rx.runtime.plan import Plan, PlanNode

CLOCK = frozenset(("now", "schedule", "horizon"))
HERE = "reliable_rx."

if TYPE_CHECKING:
    from hosting.engine.event_time.runtime import EventClock
    from hosting.engine.suspended import Suspended


def check_clock(name: str, clock: Any, plan: Plan, there: Standing | Suspended | None) -> None:
    """*Raises* `QueryRefused` for a clock that *plan* cannot have, or that the query of that name cannot be given."""
    if clock is not None and not isinstance(clock, EventTime):
        raise TypeError(f"clock must be None (processing time) or event_time(...), got {clock!r}")
    if there is not None and there.status == RUNNING and (clock is None) != (there.clock is None):
        raise QueryRefused(
            f"{name!r} runs on {'processing' if clock is not None else 'event'} time, and its timers and windows mean "
            f"nothing on the other clock: dispose of it first, or create the new query under another name",
            path="/",
        )
    if clock is not None:
        check_sources(name, clock, sources_of(plan))


def check_sources(name: str, clock: EventTime, sources: frozenset[str]) -> None:
    """*Raises* `QueryRefused` if events could not move the clock."""
    if not sources:
        raise QueryRefused(
            f"{name!r} names no source, so that no event would ever move its clock: create it without event_time, or "
            f"name a source outside of its selectors",
            path="/",
        )
    unread = [source for source in sorted(sources) if clock.of(source) is None]
    if unread:
        raise QueryRefused(
            f"{name!r} reads {unread[0]!r}, but event_time has no timestamp function for it: add it to the mapping",
            path=f"/{unread[0]}",
        )


def sources_of(plan: Plan) -> frozenset[str]:
    """Name the sources of a plan, with those that its selectors name whatever the value they are called for."""
    found = set(plan.sources)
    for node in plan.walk():
        if selects(node):
            try:
                inner: Any = node.op.inner(Symbol())  # type: ignore[attr-defined]
                if isinstance(inner, Query):
                    found |= sources_of(Plan(inner.node, limits=plan.limits, symbolic=True))
            except BaseException as raised:  # it depends on the value: what it names is added when it is subscribed to
                let_through(raised)
    return frozenset(found)


def selects(node: PlanNode) -> bool:
    """Whether an operator subscribes to what a selector returns, by whatever value it is called for."""
    return isinstance(node.op, Stage) and node.template is None and type(node.op).inner is not Stage.inner


def joined_by(standing: Standing, spec: EventTime, *, is_edit: bool) -> frozenset[str]:
    """Return the sources that inner sequences of *standing* have named and *spec* reads; of an edit those read now.

    Without an edit the watermark stays what it is: it goes on to wait for a source that was read before.
    """
    clock = standing.clock
    if clock is None:
        return frozenset()
    named = clock.watermark.sources - sources_of(standing.plan)
    return frozenset(each for each in named if spec.of(each) is not None and (not is_edit or each in read_by(clock)))


def read_by(clock: EventClock) -> set[str]:
    """Return the sources that somebody in the query of *clock* reads now."""
    return {source for source, route in clock.routes.items() if route.is_read}


def leave_unread(clock: EventClock) -> None:
    """Let the *clock* of an edited query wait no more for sources that only the inner sequences of before had named."""
    sources = clock.watermark.sources & (sources_of(clock.standing.plan) | read_by(clock))
    if sources != clock.watermark.sources:
        clock.join(clock.spec, sources)
        clock.catch_up()


def is_timeless(plan: Plan) -> bool:
    """Whether a list may span several moments because nothing in *plan* looks at the clock."""
    return plan.by_list and not any(reads_clock(node) for node in plan.walk())


def reads_clock(node: PlanNode) -> bool:
    kind: Any = type(node.op)
    return isinstance(node.op, Stage) and looks_at_clock(kind)


@lru_cache(maxsize=1024)
def looks_at_clock(kind: Any) -> bool:
    """Whether a kind of operator may look at the clock or set timers: read from its code, so that nobody has to say so.

    Code of others may reach the clock in ways that cannot be seen, so it counts as looking.
    """
    kinds = [each for each in kind.__mro__ if issubclass(each, Stage) and each is not Stage]
    if any(not each.__module__.startswith(HERE) for each in kinds):
        return True
    steps = [value for each in kinds for value in vars(each).values()]
    return any(CLOCK & names(getattr(step, "__func__", step), ()) for step in steps)


def names(function: Any, seen: tuple[Any, ...]) -> set[str]:
    """Return every name in *function* and in what it calls by a name of its module."""
    if not isinstance(function, FunctionType) or function in seen or not function.__module__.startswith(HERE):
        return set()
    found = {name for code in codes(function.__code__) for name in code.co_names}
    for name in tuple(found):
        found |= names(function.__globals__.get(name), (*seen, function))
    return found


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)
