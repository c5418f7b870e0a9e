"""Queries that do other things in each process: what they subscribe to, set, call and raise is drawn by the process.

They stand beside those of a random app, which read none of them: whatever a replay makes of these, it is to be theirs.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

from random_apps import INPUTS, NAMES, Declared, num, stamp

import reliable_rx as rx
from reliable_rx import operators as ops

PROCESS = "RELIABLE_RX_TEST_PROCESS"
"""Which process this is: in the environment, since what functions close over travels with them."""


async def itself(value: Any) -> int:
    return num(value)


def odd_apps(seed: int, *, clocked: bool) -> list[tuple[str, Declared]]:
    """Return queries to be declared before every second one of the app; *clocked*, with the clocks of others."""
    draw = random.Random(seed)
    return [(f"odd{at}", odd(draw, [*INPUTS, *NAMES[: at + 1]], clocked=clocked)) for at in (0, 2)]


def odd(draw: random.Random, names: list[str], *, clocked: bool) -> Declared:
    inner = oddly([draw.choice([*INPUTS, *NAMES]) for _ in range(4)], draw.randrange(100))
    flat: Any = draw.choice([ops.flat_map, ops.concat_map, ops.flat_map_latest])
    query = rx.source(draw.choice(names)).pipe(flat(inner))
    on_event_time = clocked and draw.random() < 0.6
    clock = rx.event_time(stamp, lateness_s=draw.choice([0.0, 3.0]), idle_s=1e6, late="keep") if on_event_time else None
    return Declared(query, draw.choice(["fail", "skip", "dead_letter"]), clock)


def oddly(names: list[str], salt: int) -> Callable[[Any], Any]:
    """Return a selector whose inner sequences depend on the process."""

    def selected(value: Any) -> Any:
        draw = random.Random(num(value) * 1000 + salt + 100_000 * int(os.environ[PROCESS]))
        if draw.random() < 0.03:
            raise ValueError(value)
        return rx.merge(*(draw.choice(INNER)(value, draw.choice(names)) for _ in range(draw.randrange(4))))

    return selected


INNER: list[Callable[[Any, str], Any]] = [
    lambda value, name: rx.return_value(value),
    lambda value, name: rx.source(name).pipe(ops.take(2)),
    lambda value, name: rx.source(name),
    lambda value, name: rx.source(f"{name} {num(value) % 3}"),
    lambda value, name: rx.timer(0.5 + num(value) % 3),
    lambda value, name: rx.return_value(value).pipe(ops.delay(1.5), ops.map_async(itself)),
    lambda value, name: rx.return_value(value).pipe(ops.map_async(itself)),
    lambda value, name: rx.source(name).pipe(ops.buffer_with_time(2.5), ops.take(2)),
    lambda value, name: rx.source(name).pipe(ops.group_by(num), ops.flat_map(lambda group: group.pipe(ops.take(2)))),
    lambda value, name: rx.never(),
]
