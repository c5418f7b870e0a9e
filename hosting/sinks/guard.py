"""A sink that stands before another one and lets calls through only while it may.

Who wants to know what a sink is asks by class whether it is one: a property of that name may be the program's own, and
raise.
"""

from __future__ import annotations

from typing import Any

from reliable_rx.class_of import is_a
from reliable_rx.reliable import Sink


class Guard:
    """What stands before the sink *guarded*, and is known by the class of that."""

    def __init__(self, guarded: Sink) -> None:
        self.guarded = guarded


def sink_itself(sink: Any) -> Any:
    """Return *sink*, or the one that it guards."""
    return sink.guarded if is_a(sink, Guard) else sink
