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
SINK_OWED = "a sink has failed, and is tried by the next node that starts"
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


def tell(
    registry: Registry,
    name: str,
    partition: Partition,
    failing: Failure | None,
    *,
    owes: Callable[[bool], bool],
    goes_on: bool = False,
) -> Failure | None:
    """Have the group know what is *failing* in the queries of a partition that nobody has; return what it had known.

    A sink, or a failure to run it, is not known to who looks at the queries: as an error it stays. One that had been
    read to its end is opened again by the next node if it *owes* its sinks something; it is asked with whether it is
    news that nothing, or something else, fails. One that *goes on* is to be read. All at once: of a kill there is no
    half to make up for.
    """
    known: list[Failure | None] = [None]

    def act(group: Group) -> list[Partition]:
        hold = group.holds[partition]
        before = known[0] = hold.failure
        hold.failure = failure_now(before, failing, unwritten=hold.unwritten)
        is_news = hold.failure != before
        if goes_on and hold.status is Status.TERMINATED:
            hold.status, hold.unwritten, is_news = Status.WAIT, False, True
        if hold.is_over and owes(is_news):
            hold.unwritten = is_news = True
        return [partition] if is_news else []

    _change(registry, name, act)
    return known[0]


def warn(registry: Registry, name: str, partition: Partition, found: Failure | None) -> None:
    """Have the group know which partitions have come behind the end of *partition*, unless something fails in it."""

    def act(group: Group) -> list[Partition]:
        hold = group.holds.get(partition)
        if hold is None or hold.status is not Status.TERMINATED or hold.failure == found:
            return []
        if hold.failure is not None and not hold.failure.is_late:
            return []
        hold.failure = found
        return [partition]

    _change(registry, name, act)


def forget_holder(registry: Registry, name: str, partition: Partition, subject: str) -> None:
    """Forget that the group was warned of a holder, called *subject*, of a partition that nobody has."""

    def act(group: Group) -> list[Partition]:
        hold = group.holds.get(partition)
        if hold is None or hold.failure is None or not hold.failure.message.startswith(f"warns: holder {subject!r}: "):
            return []
        hold.failure = None
        return [partition]

    _change(registry, name, act)


def failure_now(before: Failure | None, failing: Failure | None, *, unwritten: bool) -> Failure | None:
    """Return what a group knows of a partition whose queries are looked at, where it had known *before*.

    >>> failure_now(None, Failure(0, "query 'q': has failed"), unwritten=False)
    Failure(count=0, message="query 'q': has failed", warning=False)
    >>> failure_now(Failure(0, "query 'q': has failed (and 1 more)"), None, unwritten=True).message
    'a sink has failed, and is tried by the next node that starts'
    """
    if before is not None and before.is_late:
        return failing
    if before is None or not before.is_of_query:
        is_told = failing is not None and (failing.is_late or not failing.warning)
        return failing if is_told and (before is None or before.warning) else before
    if not unwritten or not before.message.endswith((" more)", SINK_OWED)):
        return failing
    if failing is None or failing.warning:
        return Failure(0, SINK_OWED)
    return Failure(0, f"{failing.message}; {SINK_OWED}")


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
