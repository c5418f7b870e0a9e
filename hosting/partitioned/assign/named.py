"""Assignors by the names that configuration files and command lines use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from hosting.partitioned.assign.averagely import averagely
from hosting.partitioned.assign.circle import averagely_by_circle
from hosting.partitioned.assign.configured import ByConfiguration
from hosting.partitioned.assign.fixed import Fixed
from hosting.partitioned.assign.hashing import ConsistentHash
from hosting.partitioned.assign.nearby import MachineRoomNearby
from hosting.partitioned.assign.rooms import MachineRoom
from hosting.partitioned.assign.sticky import sticky
from hosting.partitioned.words import Assignor

ASSIGNORS: Mapping[str, Callable[..., Assignor]] = MappingProxyType(
    {
        "sticky": lambda: sticky,
        "averagely": lambda: averagely,
        "averagely-by-circle": lambda: averagely_by_circle,
        "consistent-hash": ConsistentHash,
        "by-configuration": ByConfiguration,
        "machine-room": MachineRoom,
        "machine-room-nearby": MachineRoomNearby,
        "fixed": Fixed,
    }
)


def assignor_named(name: str, **options: Any) -> Assignor:
    """Return the assignor that is called *name*, made with *options*.

    *Raises* `ValueError` if there is none of that name, or if it does not take these options.

    >>> assignor_named("consistent-hash", points=40)
    ConsistentHash(points=40)
    """
    if name not in ASSIGNORS:
        raise ValueError(f"there is no assignor {name!r}; choose one of {', '.join(sorted(ASSIGNORS))}")
    try:
        return ASSIGNORS[name](**options)
    except TypeError as error:
        raise ValueError(f"the assignor {name!r} cannot be made with {options}: {error}") from error
