"""How calls out of a query are made: what any host must do, and how it is done un-hosted.

Un-hosted they are made at once, on a loop in another thread, and their answers come in one by one. There is no journal
here, so nothing of a call outlives the process. An `AsyncIOScheduler` given to ``subscribe`` names the loop that the
application already runs, and the calls run there.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from reactivex.scheduler.eventloop import AsyncIOScheduler

from reliable_rx.unhosted.loop import SHARED, Tasks

if TYPE_CHECKING:
    from reliable_rx.runtime.instance import Instance
    from reliable_rx.runtime.plan import PlanNode
    from reliable_rx.unhosted.subscribing import PlainWorld


Call = tuple[str, int, int]
"""The query that asks, in which turn, and which of its calls in this turn it is."""


class Calls(Protocol):
    """How a host makes the calls out of its queries."""

    def ask(self, instance: Instance, node: PlanNode, value: Any, /) -> Hashable:
        """Call out; what is returned names the call for the life of the host."""

    def resume(self, instance: Instance, node: PlanNode, /) -> None:
        """Take up the calls that a checkpoint knows to be in flight."""

    def drop(self, instance: Instance, node: PlanNode, /) -> None:
        """Nobody waits for the calls of this operator any more."""

    def hold(self, instance: Instance, node: PlanNode, /, *, full: bool) -> None: ...
    def origin(self, instance: Instance, node: PlanNode, value: Any, /) -> Any: ...
    def at_work(self, origin: Any, /) -> None: ...


class PlainCalls:
    """The calls of one subscription."""

    def __init__(self, world: PlainWorld) -> None:
        scheduler = world.scheduler
        self.world = world
        self.tasks = Tasks(scheduler._loop) if isinstance(scheduler, AsyncIOScheduler) else SHARED.tasks()
        self.wanted: set[int] = set()

    def ask(self, instance: Instance, node: PlanNode, value: Any) -> int:
        number, op = self.world.order(), node.op
        self.wanted.add(number)

        def done(value: Any, error: Exception | None) -> None:
            self.world.enter(self._receive, instance, node, number, value, error)

        make = partial(op.coroutine, value)  # type: ignore[attr-defined]
        self.tasks.begin((self, number), make, op.timeout_s, done)  # type: ignore[attr-defined]
        return number

    def _receive(self, instance: Instance, node: PlanNode, number: int, value: Any, error: Exception | None) -> None:
        if number in self.wanted:
            self.wanted.remove(number)
            instance.answer(node, number, value, error)

    def drop(self, instance: Instance, node: PlanNode) -> None:
        for number in node.op.in_flight(instance.states[node.slot]):  # type: ignore[attr-defined]
            self.wanted.discard(number)
            self.tasks.cancel((self, number))

    def resume(self, instance: Instance, node: PlanNode) -> None:
        """Nothing is saved here."""

    def hold(self, instance: Instance, node: PlanNode, *, full: bool) -> None:
        """Rx's sources are not asked whether they may."""

    def origin(self, instance: Instance, node: PlanNode, value: Any) -> Any:
        """Nobody buries events here."""

    def at_work(self, origin: Any) -> None:
        """The same."""
