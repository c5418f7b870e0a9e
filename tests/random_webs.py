"""Generator of apps that are webs: queries that mostly read one another, each by several ways of unequal length.

Many fail, and hand that on; some catch it, wait, or end sooner. `random_apps.py` draws nearly all operators instead, of
queries that read one or two others.
"""

from __future__ import annotations

from typing import Any

from random_apps import EDITED, IDLE_S, NAMES, Declared, Drawing, Steps, adding, num, tripping

import reliable_rx as rx
from reliable_rx import operators as ops

NEAREST = 3
"""How many of the queries before it one may read: webs are deep."""
ELEMENTS_MAX = 60


class Weaving(Drawing):
    """Draws of one web."""

    def query(self) -> Any:
        parts = [
            rx.source(self.random.choice(self.names[-NEAREST:])).pipe(*self.way())
            for _ in range(self.random.choice([1, 2, 2, 3]))
        ]
        steps: Steps = (ops.take(ELEMENTS_MAX),)
        if self.random.random() < 0.2:
            steps = (ops.catch(self.any_of()), *steps)
        if self.random.random() < 0.3:
            steps = (ops.scan(lambda a, v: (num(a) * 3 + num(v)) % 1000, 0), *steps)
        if self.random.random() < 0.5:
            steps = (*tripping(self), *steps)
        return (rx.merge(*parts) if self.random.random() < 0.7 else rx.concat(*parts)).pipe(*steps)

    def way(self) -> Steps:
        """Return what stands on the way from one query to the next."""
        ways: list[Steps] = [
            (),
            (),
            adding(self, 0),
            tripping(self),
            (ops.delay(1.5),),
            (ops.catch(self.any_of()),),
            (ops.take(4),),
            (ops.materialize(), ops.map(lambda told: len(told.kind))),
        ]
        return self.random.choice(ways)

    def any_of(self) -> Any:
        return rx.source(self.random.choice(self.names))


def web(
    seed: int, *, clocked: bool, edited: bool = False, mended: int = 0, idle_s: float = IDLE_S
) -> dict[str, Declared]:
    """Return the web of *seed*, by the names of its queries, as `random_apps.app` does an app."""
    hosted = web(seed, clocked=clocked, idle_s=idle_s) if edited else {}
    draw = Weaving(seed + EDITED if edited else seed, clocked=clocked, mended=mended, idle_s=idle_s)
    return {name: draw.declared(name, hosted.get(name)) for name in NAMES}
