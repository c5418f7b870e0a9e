"""Inner sequences that wait once: one timer, then a value that goes through maps and filters, and the end.

What a selector returns for a timeout, a reminder or a delayed answer is of this kind, a new one for each element, and
most of them are closed before they are due. So none is subscribed operator by operator or played through the wiring:
opening it sets the timer, and when that fires its functions are asked. To whoever reads a row it looks like every other
row. Rejected: to keep them in the row of the operator that reads them, which every checkpoint would then write whole.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from reliable_rx.operators.contract.operator import TICK
from reliable_rx.runtime.instance import Instance, Timer
from reliable_rx.runtime.plan import Operators, Plan, PlanNode


class Waiting(Instance):
    """A row that is nothing but a timer."""

    __slots__ = ("timer",)
    __init__ = object.__init__  # `wait` fills it in, which is faster
    timer: Timer

    detached = 0
    gathered = orders = children = outliving = subjects = hubs = None

    @property
    def active(self) -> int:  # type: ignore[override]
        return self.plan.root.mask

    @property
    def states(self) -> list[Any]:  # type: ignore[override]
        return [self.ops[0].State(due=self.timer[0]), *self.plan.blank[1:]]

    @property
    def timers(self) -> dict[int, dict[Hashable, Timer]]:  # type: ignore[override]
        return {0: {TICK: self.timer}}

    def dispose(self, *, force: bool = True) -> None:
        """Be silent from now on; nothing changes that a snapshot at work has yet to write."""
        self.sink = None
        self.world.cancel_timer(self.timer)

    def fire(self, node: PlanNode, tag: Hashable) -> None:
        """Emit what comes of the timer, and end."""
        value, passes, failed, ops = 0, True, None, self.ops
        try:
            for place, maps, filters in self.plan.waits:  # type: ignore[union-attr]
                if maps is not None:
                    value = getattr(ops[place], maps)(value)
                elif not getattr(ops[place], filters)(value):  # type: ignore[arg-type]
                    passes = False
                    break
        except BaseException as raised:
            error = self.world.blame(raised, self)
            passes, failed = False, None if self.world.absorb(self, self.plan.root, error) else error
        if passes:
            self.sink.inner_deliver(self, (value,))
        sink = self.sink
        if sink is not None:  # what came of the value has not closed it
            sink.inner_finish(self, failed)


def wait(
    world: Any, parent: Instance, node: PlanNode, key: Hashable, outer: Any, plan: Plan, ops: Operators
) -> Waiting | None:
    """Begin to wait in *parent*; None if the timer among *ops* is not to fire just once, some time after now.

    A method of hosts, which have one clock, where `now` is asked of each scheduler elsewhere.
    """
    due = ops[0].once(world.clock)
    if due is None:
        return None
    child: Waiting = Waiting()
    child.plan = plan
    child.ops = ops
    child.world = world
    child.sink = node
    child.key = key
    child.unit = child
    child.saved = None
    child.epoch = world.epoch
    child.parent = parent
    child.outer = outer
    world.touch(child)
    child.timer = world.set_timer(child, plan.nodes[0], TICK, due)
    return child
