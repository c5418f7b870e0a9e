"""Who is to own what: pure functions from members, shards and the owners before to the owners from now on."""

from hosting.partitioned.assign.averagely import averagely
from hosting.partitioned.assign.circle import averagely_by_circle
from hosting.partitioned.assign.configured import ByConfiguration
from hosting.partitioned.assign.fixed import Fixed
from hosting.partitioned.assign.hashing import ConsistentHash
from hosting.partitioned.assign.named import ASSIGNORS, assignor_named
from hosting.partitioned.assign.nearby import MachineRoomNearby
from hosting.partitioned.assign.rooms import MachineRoom
from hosting.partitioned.assign.sticky import sticky

__all__ = [
    "ASSIGNORS", "ByConfiguration", "ConsistentHash", "Fixed", "MachineRoom", "MachineRoomNearby", "assignor_named",
    "averagely", "averagely_by_circle", "sticky",
]  # fmt: skip
