"""Long sequences of our own making, in portions: what one turn of a host emits stays bounded.

Un-hosted a long range is a long loop, as in RxPY, and nothing is held. A host holds what a turn emits until it is
durable, and takes no checkpoint and no event meanwhile. So after `PORTION` elements a hosted sequence goes on in the
next turn: a timer is due as soon as the clock has gone beyond this move. Where the clock is that of the events it may
never move again, so there all comes in one turn.
"""

from __future__ import annotations

from collections.abc import Hashable
from math import inf, nextafter
from typing import Any

PORTION = 10_000


def goes_on_later(cx: Any, tag: Hashable) -> bool:
    """Have `on_timer` called with *tag* in a later turn, and say so; un-hosted there is no later turn."""
    world = cx.instance.world
    if hasattr(world, "scheduler") or getattr(world, "own_clock", None) is not None or world.timestamps:
        return False
    cx.schedule(max(cx.horizon, nextafter(cx.now, inf)), tag)
    return True
