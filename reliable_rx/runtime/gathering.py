"""What the readers of groups emit while a stage takes a list, gathered so that it goes on as one list.

While what was gathered is passed on, nothing is gathered: what stands behind may have groups of its own in the same
row, and their values are not to come back to here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reliable_rx.runtime.instance import Instance
    from reliable_rx.runtime.plan import PlanNode


def pass_on(instance: Instance, reader: PlanNode) -> None:
    """Deliver what has been gathered for *reader* so far; the gathering goes on."""
    gathered = instance.gathered
    if not gathered:
        return
    instance.gathered = None
    try:
        if instance.active & reader.bit:
            reader.deliver(instance, gathered)
    finally:
        instance.gathered = []


def pass_on_above(instance: Instance) -> None:
    """Deliver what the groups around *instance* have gathered, the innermost first."""
    parent, sink = instance.parent, instance.sink
    while parent is not None and sink is not None:
        pass_on(parent, sink)
        instance = parent
        parent, sink = instance.parent, instance.sink
