"""What a host gives the instances that it runs: a clock, sources, and what happens to rows and errors."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from reliable_rx.query.query import Query
    from reliable_rx.runtime.calling import Calls
    from reliable_rx.runtime.hub import Trampoline
    from reliable_rx.runtime.instance import Instance
    from reliable_rx.runtime.plan import Operators, Plan, PlanNode
    from reliable_rx.runtime.stage_context import Cx

T = TypeVar("T")
Timer = list[Any]  # due, order, instance or None, node, tag


class World(Protocol):
    """What a host gives the instances it runs."""

    @property
    def calls(self) -> Calls: ...

    @property
    def trampoline(self) -> Trampoline:
        """Where subscriptions run, and where hubs queue what they replay."""

    epoch: int
    """The number of the newest snapshot; rows written in it, or born after it, carry it."""
    replaying: bool
    """Whether turns of the journal are being taken again."""
    leaves_out: bool
    """Whether anything may run here that goes on without an event."""
    moving: bool
    """Whether rows are being taken out of instances and put into others: what ends meanwhile has not ended."""

    def now(self, node: PlanNode, /) -> float: ...
    def horizon(self, node: PlanNode, /) -> float:
        """The time before which everything due happens in the move of the clock at work."""

    def touch(self, unit: Any, /) -> None:
        """A row is about to change."""

    def forget(self, unit: Any, /) -> None:
        """A row is gone."""

    def order(self) -> int:
        """The next number of a counter that only grows: it orders subscriptions and simultaneous timers."""

    def key_of(self, key: Hashable, /) -> Hashable:
        """Return *key* as that of a new group: where rows are written, one of its own for what no copy of it equals."""

    def moment(self, opener: Cx, call: Callable[..., T], /, *args: Any) -> T:
        """Call *call*, and have all happen before this returns that it sets going without delay.

        Not where a subscription is under way, which is finished first, nor once *opener* has ended.
        """

    def follow_up(self, opener: Cx, call: Callable[..., None], /, *args: Any) -> None:
        """Do the same with what feeds or ends an inner sequence, and opens none."""

    openers: list[Cx]
    """Whose moments are going on, the outermost first."""

    def set_timer(self, instance: Instance, node: PlanNode, tag: Hashable, due: float | None, /) -> Timer: ...
    def cancel_timer(self, timer: Timer, /) -> None: ...
    def resume_timer(self, instance: Instance, node: PlanNode, tag: Hashable, due: float, order: int, /) -> Timer: ...
    def subscribe(self, instance: Instance, leaf: PlanNode, /) -> None: ...
    def resume(self, instance: Instance, leaf: PlanNode, order: int, /) -> None:
        """Take up a subscription that a checkpoint knows."""

    def absorb(self, instance: Instance, node: PlanNode, error: Exception, /) -> bool:
        """Whether the host goes on without the event that made a user function raise *error*."""

    def blame(self, raised: BaseException, by: Instance, /) -> Exception:
        """Return what a user function has raised as the error of its query, which *by* is of; raise what is none."""

    def struck(self, instance: Instance, error: Exception, /) -> None:
        """The interpreter raised *error* where no operator could deal with it: *instance* cannot go on."""

    def unheard(self, instance: Instance, node: PlanNode, error: Exception, /) -> None:
        """A step of *node* raised *error* when it had ended, so that nobody in the query hears of it."""

    def effect_failed(self, instance: Instance, node: PlanNode, error: Exception, /) -> None:
        """An effect of a part that has ended raised *error*, which nobody in the query can hear any more."""

    def unsubscribe(self, instance: Instance, leaf: PlanNode, /) -> None: ...
    def wait(
        self, parent: Instance, node: PlanNode, key: Hashable, outer: Any, plan: Plan, ops: Operators, /
    ) -> Instance | None:
        """Open an inner sequence that does nothing but wait once; None if the host has no shorter way for it."""

    def plan_inner(self, query: Query[Any], node: PlanNode, /) -> tuple[Plan, Operators]:
        """Return the plan that runs what the selector of *node* has returned, and the operators to run it with.

        *Raises* `LimitExceeded` if it is nested too deeply.
        """
