"""Accumulators that are changed in place: what has been emitted is read before the function runs again.

`scan(append, [])` emits one list over and over, and Rx lets whoever reads it see each length. In lists of events all
of them would be read at their last length. So while an operator *hands out* a state that could be changed, its segment
takes the events one by one, and what the groups above have gathered is passed on behind each.

Rejected: a copy of the state for each event (a list of n elements costs n then), an error (such programs run in RxPY),
and to look whether the function returned the object that it was given (the one emitted before is changed by then).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from reliable_rx.class_of import ids_of
from reliable_rx.operators.contract.operator import Linear

if TYPE_CHECKING:
    from reliable_rx.runtime.instance import Instance
    from reliable_rx.runtime.plan import PlanNode

Run = Callable[..., None]
CONSTANTS = ids_of(
    (int, float, complex, bool, str, bytes, date, datetime, time, timedelta, Decimal, Fraction, range)
)  # no None: it mostly stands for a state that is still to come

PARTS_MAX = 1000
"""So many parts of a tuple are looked at for each list of events: of larger ones nothing is known."""
_DICT_OFFSET: Any = type.__dict__["__dictoffset__"]


def is_constant(value: Any) -> bool:
    """Whether nobody can change *value*, nor anything in it; what is not known may be changed."""
    kind = type(value)
    if id(kind) in CONSTANTS:
        return True
    if not issubclass(kind, tuple) or _DICT_OFFSET.__get__(kind):
        return False
    for each in tuple.__iter__(value):
        if id(type(each)) not in CONSTANTS:
            return issubclass(type(each), tuple) and _has_constants(value)
    return True


def _has_constants(value: tuple[Any, ...]) -> bool:
    """Whether all parts of a tuple are constant, at any depth."""
    waiting, seen, left = [value], set[int](), PARTS_MAX
    while waiting:
        at = waiting.pop()
        left -= tuple.__len__(at)
        if left < 0 or _DICT_OFFSET.__get__(type(at)):
            return False
        for each in tuple.__iter__(at):
            kind = type(each)
            if id(kind) in CONSTANTS or id(each) in seen:
                continue
            if not issubclass(kind, tuple):
                return False
            seen.add(id(each))
            waiting.append(each)
    return True


def stays(value: Any, usual: list[type | None]) -> bool:
    """The same, noting in *usual* the class of a value that is told by it: who asks again need not."""
    if id(type(value)) in CONSTANTS:
        usual[0] = type(value)
        return True
    return is_constant(value)


def handed_out(nodes: Sequence[PlanNode]) -> list[int]:
    """Return the slots of the states that consecutive operators emit themselves."""
    return [node.slot for node in nodes if isinstance(node.op, Linear) and node.op.hands_out]


def may_change(states: Sequence[Any], slots: Sequence[int]) -> bool:
    """Whether one of these states, which have been emitted, may be changed by what comes next."""
    for slot in slots:  # noqa: SIM110 - a generator costs more, and it is asked for every list
        if not is_constant(states[slot].value):
            return True
    return False


def one_by_one(run: Run, instance: Instance, values: Sequence[Any], slots: Sequence[int], bit: int) -> None:
    """Give *run* the values singly for as long as these states may change, and the rest as one list."""
    begun = [instance.states[slot] for slot in slots]
    for at, value in enumerate(values):
        if not may_change(instance.states, slots):
            run(instance, values[at:])
            return
        run(instance, (value,))
        if not instance.active & bit or any(instance.states[s] is not b for s, b in zip(slots, begun, strict=True)):
            return  # it has ended, or begun anew: what follows is no longer for it
