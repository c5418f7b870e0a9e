"""`reliable-rx status`: who is in a group, who has which partition, how far it is, and who waits for what."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from hosting.cli.groups import Found, Positions, bounds_at, found_group, positions_of
from hosting.cli.terminal import complain, drawn_over, say
from hosting.cli.wording import FAILED, plural, span, table
from hosting.partitioned.status import GroupStatus, MemberStatus, PartitionStatus, PositionStatus, status_of
from reliable_rx.errors import OffsetsMoved

WATCH_S = 1.0


def status(
    where: str, name: str | None, *, new_offsets: str | None, app: str | None, as_json: bool, watch: bool
) -> int:
    """Show the group *name*, once or until Ctrl-C; return 0, or 3 if something in it fails, when it was seen last."""
    positions = {} if app is None else positions_of(app)
    with found_group(where, name, new_offsets=new_offsets) as found:
        seen = now(found, positions)
        if not watch:
            show(seen, as_json=as_json)
        else:
            with suppress(KeyboardInterrupt), drawing(as_json=as_json) as draw:
                while True:
                    draw(seen)
                    time.sleep(WATCH_S)
                    seen = now(found, positions)
        return FAILED if seen.is_failing else 0


def now(found: Found, positions: Positions) -> GroupStatus:
    """Look at everything; at the positions only if they are not elsewhere."""
    group = found.document()
    age_s = found.opened.registry.age_s()
    try:
        committed = found.offsets.fetch(found.name)
    except OffsetsMoved as error:
        complain(f"{error.message} with --new-offsets; shown without positions")
        return status_of(group, {}, {}, age_s=age_s)
    return status_of(group, committed, bounds_at(positions), age_s=age_s)


def show(group: GroupStatus, *, as_json: bool) -> None:
    for line in [json.dumps(group.to_plain())] if as_json else lines(group):
        say(line)


@contextmanager
def drawing(*, as_json: bool) -> Iterator[Callable[[GroupStatus], None]]:
    """Show a group again and again: drawn over on a terminal, one under the other elsewhere."""
    if as_json:
        yield lambda group: show(group, as_json=True)
        return
    with drawn_over() as draw:
        yield (lambda group: show(group, as_json=False)) if draw is None else lambda group: draw(lines(group))


def lines(group: GroupStatus) -> Iterator[str]:
    """Write a group for people."""
    yield (
        f"group {group.group}: {plural(len(group.members), 'member')}, {plural(len(group.partitions), 'partition')}"
        f"{', gathering members' if group.gathering else ''}, generation {group.generation:,}"
    )
    if group.silent_s is not None:
        yield ""
        yield f"no member was heard of for {span(group.silent_s)}, longer than a session: none lives, or none can write"
    if group.members:
        yield ""
        several = len({each.version for each in group.members}) > 1
        yield from table(
            ("member", "instance", "tag", "room", "capacity", "holds", "to have", "beat", ""),
            (member_row(each, several=several) for each in group.members),
        )
    if group.former:
        yield ""
        yield from (f"when {name} left: {trouble}" for name, trouble in group.former.items())
    if group.partitions:
        yield ""
        yield from table(
            ("partition", "status", "owner", "epoch", "position", "lag", "committed", ""),
            (row for each in group.partitions for row in partition_rows(each)),
        )
    if group.loose:
        yield ""
        yield "positions of partitions that are no longer listed"
        yield from table(("position of", "position", "lag"), ((label(e), e.position, e.lag) for e in group.loose))


def member_row(each: MemberStatus, *, several: bool) -> Sequence[object]:
    """A member, and with *several* lists of partitions in the group, which of them its app has."""
    remarks = [
        *(["leaving"] if each.leaving else []),
        *([f"offsets {each.offsets}"] if each.offsets else []),
        *([f"app lists {each.version}"] if several and each.version else []),
        *([f"{each.failing:,} failing"] if each.failing else []),
        *([each.trouble] if each.trouble else []),
    ]
    return (
        each.id, each.instance or "", each.tag, each.room or "", each.capacity, each.holds, each.target, each.beat,
        ", ".join(remarks),
    )  # fmt: skip


def partition_rows(each: PartitionStatus) -> Iterator[Sequence[object]]:
    """A row for the partition with its own position, and one for each other that it has, such as those of a section."""
    named = f"{each.source}/{each.partition}"
    own = next((position for position in each.positions if label(position) == named), None)
    yield (named, each.status.upper(), each.owner or "", each.epoch, *position_cells(own), each.why)
    for other in each.positions:
        if other is not own:
            yield (f"  {label(other)}", "", "", "", *position_cells(other), "")


def position_cells(each: PositionStatus | None) -> tuple[object, object, object]:
    if each is None:
        return None, None, None
    return each.position, each.lag, None if each.time is None else f"{span(max(0.0, time.time() - each.time))} ago"


def label(each: PositionStatus) -> str:
    return f"{each.source}/{each.partition}"
