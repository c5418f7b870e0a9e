"""Classes in whose place another one has come: their cell was run again, or their module was reloaded.

Where a query is created again behind that, what its state holds of them goes over to the new ones: from then on they go
by name, as any class does. Before, they are stored by their code: a replay then has two classes as the first run had.
Known is what was seen under its name before, and has lost it. Rejected: asking only whether the name leads to another
class (two classes of one name, of which neither ever had the place of the other, are ordinary: a class below its
namesake, records made from a header, a plugin, a mock).
"""

from __future__ import annotations

import sys
from operator import attrgetter
from typing import Any
from weakref import ref

from reliable_rx.class_of import is_a, module_of, qualname_of

_REPLACED: dict[int, Any] = {}


def note(kind: type) -> None:
    """Know *kind*, which a name has led to, as replaced, if its own name leads to another class now."""
    found = _called(kind)
    if found is None or found is kind or qualname_of(found) != qualname_of(kind):
        return
    space = vars(sys.modules[module_of(kind)])
    if any(each is kind for each in list(space.values())):
        return  # it is there under another name
    number = id(kind)
    _REPLACED[number] = ref(kind, lambda _: _REPLACED.pop(number, None))


def was_replaced(kind: type) -> bool:
    """Whether another class has come in the place of this one."""
    there = _REPLACED.get(id(kind))
    return there is not None and there() is kind and _called(kind) not in (None, kind)


def _called(kind: type) -> type | None:
    """Return the class that the name of *kind* leads to now."""
    module = sys.modules.get(str(module_of(kind)))
    try:
        found = attrgetter(str(qualname_of(kind)))(module)
    except Exception:  # a module may answer as it likes
        return None
    return found if is_a(found, type) else None
