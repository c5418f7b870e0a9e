"""What people change in a group from outside: forget the dead, and open again what had ended.

Nodes do the first by themselves while one of them is alive. When all were killed at once nobody is left to notice, and
the document goes on saying that they hold their partitions. The second is what reading a partition again asks for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from hosting.partitioned.group import Group, read_group
from hosting.partitioned.registry import Registry
from hosting.partitioned.words import Failure, MemberId, Partition, Status
from reliable_rx.errors import StoreUnavailable

T = TypeVar("T")
RACES_MAX = 1_000
POLL_S = 0.1
Beats = Mapping[MemberId, tuple[str, int]]


def look(registry: Registry, name: str) -> Group | None:
    """Return the document of group *name* as it is now, None if there is none yet."""
    _, document = registry.load()
    return None if document is None else read_group(document, name=name)


def find_dead(
    registry: Registry, name: str, *, clock: Callable[[], float] = time.monotonic, pause: Callable[[float], object]
) -> Beats:
    """Watch for a session, and return the members that were not heard of, with their newest beats.

    It returns none as soon as one is heard of: where somebody lives, the dead are expired without us.
    """
    group = look(registry, name)
    if group is None or not group.members:
        return {}
    before = _beats(group)
    until = clock() + group.timing.session_s
    while clock() < until:
        pause(min(POLL_S, group.timing.session_s / 10))
        now = look(registry, name)
        if now is None or _beats(now) != before:
            return {}
    return before


def bury(registry: Registry, name: str, dead: Beats) -> list[MemberId]:
    """Take members that `find_dead` has found out of the group, unless they have been heard of meanwhile."""

    def act(group: Group) -> list[MemberId]:
        gone = [each for each, beat in _beats(group).items() if dead.get(each) == beat]
        for member in gone:
            failing = group.members[member].failing
            for partition, hold in list(group.held_by(member)):
                hold.status, hold.owner, hold.failure = Status.WAIT, None, failing.get(partition, hold.failure)
            group.forget(member)
        return gone

    return _change(registry, name, act)


def reopen(registry: Registry, name: str, partitions: Iterable[Partition]) -> list[Partition]:
    """Let partitions that had been read to their ends be opened again; return which of *partitions* had."""
    wanted = set(partitions)

    def act(group: Group) -> list[Partition]:
        ended = [each for each in sorted(wanted & group.holds.keys()) if group.holds[each].status is Status.TERMINATED]
        for each in ended:
            group.holds[each].status, group.holds[each].unwritten = Status.WAIT, False
        return ended

    return _change(registry, name, act)


def heal(registry: Registry, name: str, partition: Partition, what: str, left: Failure | None) -> bool:
    """Have the group forget that *what* had failed in a partition that nobody has; return whether it said so.

    *left* is what still fails there.
    """

    def act(group: Group) -> list[Partition]:
        hold = group.holds[partition]
        if hold.failure is None or what not in hold.failure.message:
            return []
        is_owed = hold.unwritten and left is None
        hold.failure = Failure(0, "a sink has failed, and is tried by the next node that starts") if is_owed else left
        return [partition]

    return bool(_change(registry, name, act))


def owe(registry: Registry, name: str, partition: Partition) -> None:
    """Have a partition that had been read to its end opened again by the next node, for its sinks lack something."""

    def act(group: Group) -> list[Partition]:
        hold = group.holds[partition]
        if hold.status is not Status.TERMINATED or hold.unwritten:
            return []
        hold.unwritten = True
        return [partition]

    _change(registry, name, act)


def _change(registry: Registry, name: str, act: Callable[[Group], list[T]]) -> list[T]:
    """Do *act* to the document, and say so to everybody if it did anything."""
    for _ in range(RACES_MAX):
        version, document = registry.load()
        if document is None:
            return []
        group = read_group(document, name=name)
        done = act(group)
        if not done:
            return []
        group.generation += 1
        group.stale = True
        if registry.swap(version, group.to_bytes(), notice=True):
            return done
    raise StoreUnavailable(f"somebody else was faster {RACES_MAX} times in a row; is the registry broken?")


def _beats(group: Group) -> dict[MemberId, tuple[str, int]]:
    return {each: (seat.token, seat.number) for each, seat in group.members.items()}
