"""A standing query as the engine knows it: an instance under a name, with a policy and a count of what it emitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hosting.engine.failure import read_failure
from reliable_rx.functions.shared_parts import Claims
from reliable_rx.query.query import Query
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.plan import Plan
from reliable_rx.runtime.plan_keys import lower_keys

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine
    from hosting.engine.event_time.runtime import EventClock
    from hosting.engine.failure import Failure

RUNNING, COMPLETED, FAILED = "running", "completed", "failed"
NO_KEY: Any = object()


class TopRow(NamedTuple):
    """A standing query as a store has it: its name, which is in the key, then the row as `record` writes it."""

    name: str
    plan: str
    keys: tuple[Any, ...]
    policy: str
    emitted: int
    status: str
    error: Exception | None
    born: int
    signature: int
    clock: Any
    row: Any
    failure: Any = None  # the last three are only there where there is something to tell
    skipped: int = 0
    mended: int = 0


class Faults(NamedTuple):
    """What has gone wrong in a standing query: the error that ended it, where it struck, and what was skipped."""

    error: Exception | None = None
    failure: Failure | None = None
    skipped: int = 0
    mended: int = 0  # how many of those before its newest edit


NO_FAULTS = Faults()
"""Shared by all queries in which nothing has gone wrong: there may be 100,000."""


class Standing(Instance):
    """A query that runs under a name: its row, its policy, and how much it has emitted."""

    __slots__ = ("born", "claims", "emitted", "faults", "policy", "route_key", "status")
    world: QueryEngine

    def __init__(self, plan: Plan, engine: QueryEngine, name: str, *, policy: str, keys: tuple[Any, ...]) -> None:
        super().__init__(plan, engine, self, name)
        self.policy = policy
        engine.leaves_out = engine.leaves_out or policy != "fail"
        if plan.chooses or not (plan.single or plan.sources <= engine.live.keys()):
            engine.interleaving.add(self)
        self.route_key = keys[0] if keys else NO_KEY
        self.born = 0
        self.emitted = 0
        self.status = RUNNING
        self.faults = NO_FAULTS
        self.claims: Claims | None = None

    def restore(self, top: TopRow) -> None:
        """Take over all that a store has of the query besides its state and clock."""
        self.emitted, self.status, self.born = top.emitted, top.status, top.born
        is_clean = top.error is None and top.failure is None and not top.skipped
        self.faults = NO_FAULTS if is_clean else Faults(top.error, read_failure(top.failure), top.skipped, top.mended)

    @property
    def name(self) -> str:
        return self.key  # type: ignore[return-value]

    @property
    def error(self) -> Exception | None:
        return self.faults.error

    @property
    def failure(self) -> Failure | None:
        return self.faults.failure

    @property
    def skipped(self) -> int:
        return self.faults.skipped

    def skip(self) -> None:
        """Count one more event that was skipped."""
        self.faults = self.faults._replace(skipped=self.faults.skipped + 1)

    def take_over(self, before: Standing, *, counts_afresh: bool) -> None:
        """Go on counting from what *before* has skipped, by which operators go; what is told of may begin afresh."""
        if not before.skipped:
            return
        mended = before.skipped if counts_afresh else before.faults.mended
        self.faults = self.faults._replace(skipped=self.skipped + before.skipped, mended=mended)

    @property
    def clock(self) -> EventClock | None:
        """The query's own clock, if it is on event time."""
        return self.world.own_clock

    @property
    def keys(self) -> tuple[Any, ...]:
        """The routing key, if the query has one."""
        return () if self.route_key is NO_KEY else (self.route_key,)

    @property
    def row_key(self) -> tuple[str, str]:
        return ("top", self.name)

    @property
    def query(self) -> Query[Any]:
        """The query as it was written."""
        return Query(lower_keys(self.plan.query, self.keys))

    def claim(self, plan: Plan, *, is_restored: bool) -> None:
        self.claims = self.claims or Claims()
        self.claims.add(plan, is_restored=is_restored)

    def inner_deliver(self, instance: Instance, values: Sequence[Any]) -> None:
        self.world.emit(self, values)

    def inner_finish(self, instance: Instance, error: Exception | None) -> None:
        self.world.finish(self, error)
