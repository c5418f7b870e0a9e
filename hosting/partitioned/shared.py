"""The coordinator, run by every node over one registry: no leader, no election, nothing to fail over.

Load the document, run the machine over it, write it back; if somebody was faster, do it again over what he wrote. A
step that changed nothing writes nothing. Whoever loses a race loses one short computation, and somebody has won it.
Whether a swap that raised was done does not matter: a repeated beat finds its number taken, and changes nothing.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from hosting.partitioned.beats import Answer, Beat
from hosting.partitioned.coordinator import Coordinator
from hosting.partitioned.group import Group
from hosting.partitioned.registry import Registry
from hosting.partitioned.words import Lease, Partition, Shard
from reliable_rx.errors import StoreUnavailable
from reliable_rx.failpoints import probe

T = TypeVar("T")
RACES_MAX = 1_000


class Shared:
    """The group as all nodes share it. Methods may be called from any thread, and raise `StoreUnavailable`."""

    def __init__(self, registry: Registry, coordinator: Coordinator) -> None:
        self._registry, self._coordinator = registry, coordinator
        self._lock = threading.Lock()
        self._stands_at: bytes | None = None

    def beat(self, beat: Beat, now: float) -> Answer:
        """As `Coordinator.beat`."""
        return self._apply(lambda: self._coordinator.beat(beat, now))

    def tick(self, now: float) -> float | None:
        """As `Coordinator.tick`."""
        return self._apply(lambda: self._coordinator.tick(now))

    def shards_changed(self, shards: Sequence[Shard]) -> None:
        """As `Coordinator.shards_changed`."""
        self._apply(lambda: self._coordinator.shards_changed(shards))

    def lease(self, partition: Partition) -> Lease | None:
        """Return the lease that is in force now."""
        with self._lock:
            self._load()
            return self._coordinator.lease(partition)

    def guards(self, lease: Lease) -> bool:
        """Whether *lease* is in force now."""
        with self._lock:
            self._load()
            return self._coordinator.guards(lease)

    def group(self) -> Group:
        """Return the whole document, to be looked at."""
        with self._lock:
            self._load()
            self._stands_at = None  # given away: the coordinator goes on in another
            return self._coordinator.group

    def standing(self) -> tuple[Group, bytes | None]:
        """Return what the coordinator stands at, and the document that this is of: None if it must be read anew."""
        with self._lock:
            return self._coordinator.group, self._stands_at

    def _load(self) -> tuple[int, bytes | None]:
        """Have the coordinator stand at the newest document, which is read only if it is another than it stands at."""
        version, document = self._registry.load()
        if document is None or document != self._stands_at:
            self._stands_at = None
            self._coordinator.load(document)
            if document is None:
                self._coordinator.group.identity = secrets.token_hex(8)
            self._stands_at = document
        return version, document

    def _apply(self, step: Callable[[], T]) -> T:
        with self._lock:
            for _ in range(RACES_MAX):
                version, document = self._load()
                generation = self._coordinator.group.generation
                self._stands_at = None
                result = step()
                changed = self._coordinator.group.to_bytes()
                if changed != document:
                    probe("registry.before_swap")
                    notice = self._coordinator.group.generation != generation
                    if not self._registry.swap(version, changed, notice=notice):
                        continue
                    probe("registry.after_swap")
                self._stands_at = changed
                return result
        raise StoreUnavailable(f"somebody else was faster {RACES_MAX} times in a row; are clocks or registry broken?")
