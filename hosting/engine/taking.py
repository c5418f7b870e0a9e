"""Loading of what is stored, by which queries of another interpreter go over to the functions of today.

Nothing can be emitted while a store is opened: what has to be done at once waits for the first turn. A query whose rows
cannot be loaded is spoilt, and ends alone. Rejected: one loader for this and for edits (`hosting.engine.editing`),
which have the query of before at hand, and may emit.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from hosting.engine.reopening import Reopening
from hosting.engine.unloadable import unloadable
from reliable_rx.interrupts import let_through
from reliable_rx.runtime.inner_sequences import Address
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.merging import read_again
from reliable_rx.runtime.rows import Loader, Report
from reliable_rx.runtime.signatures import Row, Signature

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine


class Taking(Reopening):
    """Loads what is stored; queries in *forgiving*, which have a report each, go over to today's functions."""

    goes_over = False

    def __init__(self, signatures: dict[int, Signature]) -> None:
        super().__init__(signatures)
        self.forgiving: dict[str, Report] = {}
        self.spoilt: dict[str, Exception] = {}
        self.engine: QueryEngine | None = None
        self.moment = self.now = 0.0

    def edit_at(self, engine: QueryEngine, ran_until: float, now: float) -> None:
        """Let what goes over to other operators do so as if it had when the process before stopped, at *ran_until*.

        What these bring begins *now*.
        """
        self.engine, self.now = engine, max(now, engine.clock)
        self.moment = min(self.now, max(ran_until, engine.clock if engine.stop is None else engine.stop.time))
        self.refitting.adopting = partial(engine.at, self.moment)

    def bringing(self) -> AbstractContextManager[None]:
        """Have what is loaded begin now where functions of today have been put in the place of others."""
        return nullcontext() if self.engine is None or not self.forgiving else self.engine.at(self.now)

    def _load(self, address: Address, row: Row) -> bool:
        if self.forgiving or self.spoilt:
            self.tells = self.goes_over = address[0] in self.forgiving
            if self.goes_over:
                self.report = self.forgiving[address[0]]
                return super()._load(address, row)
            if address[0] in self.spoilt:
                return True
        try:
            return Loader._load(self, address, row)  # not by `super()`, which takes two calls more for each row
        except BaseException as error:  # a selector may raise anything
            let_through(error)
            self.spoilt[address[0]] = unloadable(error)
            return True

    def moves(self, instance: Instance) -> bool:
        return bool(self.forgiving) and instance.address()[0] in self.forgiving

    def settle_opening(self) -> None:
        """Settle while a store is opened: nothing can be emitted then, so what has to go on without a part ends."""
        for child, error in self.refused:
            self.spoilt.setdefault(child.address()[0], unloadable(error))
        self.refused.clear()
        self.settle()
        read_again(self.opened)
        for instance in self.instances.values():
            immediate = instance.world.immediate  # type: ignore[attr-defined]
            while immediate:  # what is to be done at once waits for the first turn
                timer = immediate.popleft()
                if timer[2] is not None:
                    world = timer[2].world
                    timer[0] = max(timer[0], self.moment if world is self.engine else timer[0])
                    world.timers.push(timer)
