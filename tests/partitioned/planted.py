"""Six ways to break the protocol, each the way of some ancestor, planted in the real classes.

Every one takes a `pytest.MonkeyPatch`. What they break is in the table of `test_protocol.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol_world import World

from hosting.partitioned.channel import Channel
from hosting.partitioned.coordinator import Coordinator
from hosting.partitioned.group import Group, Hold
from hosting.partitioned.words import Partition

if TYPE_CHECKING:
    import pytest


def no_fence(patch: pytest.MonkeyPatch) -> None:
    """Commits are taken from anybody."""
    patch.setattr(Coordinator, "guards", lambda self, lease: True)


def refresh_epoch(patch: pytest.MonkeyPatch) -> None:
    """Whoever is refused reads the number that is in force and goes on, as a checkpointer of Tablestore's does."""
    worlds: list[World] = []
    made = World.__init__

    def remember(self: World, **options: Any) -> None:
        worlds[:] = [self]
        made(self, **options)

    def refresh(self: Channel) -> None:
        in_force = worlds[0].shared[0].lease(self.lease.partition)
        if in_force is not None:
            self.lease = in_force

    patch.setattr(World, "__init__", remember)
    patch.setattr(Channel, "fenced", refresh)


def early_release(patch: pytest.MonkeyPatch) -> None:
    """A partition is given on before its owner has stopped, as with Orleans' leases."""

    def ask_back(self: Coordinator, partition: Partition, hold: Hold) -> None:
        self._release(partition)

    patch.setattr(Coordinator, "_ask_back", ask_back)


def unfenced_open(patch: pytest.MonkeyPatch) -> None:
    """An answer that comes late opens a channel, without asking for the lease."""
    patch.setattr(Channel, "admit", lambda self, in_force: True)


def no_parent(patch: pytest.MonkeyPatch) -> None:
    """Children open without waiting for their parents."""
    patch.setattr(Coordinator, "_ready", lambda self, partition: True)


def no_catalog(patch: pytest.MonkeyPatch) -> None:
    """What one node lists is taken for what all have, as before there were catalogs."""
    patch.setattr(Group, "knows", lambda self, seat, partition: True)
    patch.setattr(Coordinator, "_members", lambda self, seats: [seat.member(each) for each, seat in seats.items()])


PLANTED = {
    no_catalog: "V1",
    no_fence: "S[13]|S19",
    refresh_epoch: "S[13]|S19",
    early_release: "S2",
    unfenced_open: "S19",
    no_parent: "S6",
}
