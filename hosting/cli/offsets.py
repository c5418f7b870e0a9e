"""`reliable-rx offsets`: where the groups have come to, setting that by hand, and moving it to another store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from checkpoint.offsets import Committed, Migration, Phase
from hosting.cli.groups import Found, Positions, bounds_at, found_group, positions_of, shown
from hosting.cli.terminal import agreed, say
from hosting.cli.wording import BadUsage, moment, plural, table
from hosting.edges.positions import Point, position_of
from hosting.partitioned.keys import Key, lease_over
from hosting.partitioned.opening import lease_authority, open_offsets
from hosting.partitioned.tending import look, reopen

CHANGES_SHOWN_MAX = 50


# ---- show


def show(where: str, name: str | None, *, new_offsets: str | None, app: str | None, as_json: bool) -> int:
    """Print the positions of a group; with *app* how far behind its sources they are."""
    positions = {} if app is None else positions_of(app)
    with found_group(where, name, new_offsets=new_offsets) as found:
        committed = found.positions()
        rows = list(records(committed, bounds_at(positions)))
    if as_json:
        say(json.dumps({"group": found.name, "positions": rows}))
        return 0
    say(f"group {found.name}: {plural(len(rows), 'position')}")
    for line in table(
        ("partition", "position", "lag", "epoch", "owner", "committed", ""),
        (
            (
                f"{row['source']}/{row['partition']}", row["position"], row["lag"], row["epoch"], row["owner"] or "",
                None if row["time"] is None else moment(row["time"]), "reset" if row["reset"] else row["metadata"],
            )
            for row in rows
        ),
    ):  # fmt: skip
        say(line)
    return 0


def records(
    committed: Mapping[Key, Committed], bounds: Mapping[Key, tuple[int, int] | None]
) -> Iterator[dict[str, Any]]:
    """Yield the positions as plain data."""
    for key in sorted(committed.keys() | bounds.keys()):
        found, reach = committed.get(key), bounds.get(key)
        first = None if reach is None else reach[0] if found is None else found.position
        yield {
            "source": key[0],
            "partition": key[1],
            "position": None if found is None else found.position,
            "lag": None if reach is None or first is None else max(0, reach[1] - first),
            "epoch": 0 if found is None else found.epoch,
            "owner": None if found is None else found.owner or None,
            "time": None if found is None else found.time,
            "metadata": "" if found is None else found.metadata,
            "reset": found is not None and found.is_reset,
        }


# ---- reset

Wish = tuple[str | None, Point]
"""Which position, as people name it (None for all that are not named), and where it is to go."""


def reset(
    where: str, name: str | None, wishes: Sequence[Wish], *, new_offsets: str | None, app: str | None, yes: bool
) -> int:
    """Set positions as *wishes* say, after asking; return 1 if the answer is no."""
    positions = {} if app is None else positions_of(app)
    with found_group(where, name, new_offsets=new_offsets) as found:
        offsets = found.offsets
        committed = found.positions()
        wanted = resolved(wishes, committed, positions)
        if not wanted:
            raise BadUsage(
                f"group {found.name!r} has no positions; give --app MODULE:APP to set those that its app has"
            )
        for line in changes(committed, wanted):
            say(line)
        if not yes and not agreed(f"reset {plural(len(wanted), 'position')} of group {found.name}?"):
            say("nothing was changed")
            return 1
        found.despite_the_dead(lambda: offsets.reset(found.name, wanted))
        ended = reopen(found.opened.registry, found.name, covered(found, wanted))
    say(f"{plural(len(wanted), 'position')} set" + (f", {plural(len(ended), 'partition')} open again" if ended else ""))
    say("whoever opens these partitions next reads from there")
    return 0


def resolved(wishes: Sequence[Wish], committed: Mapping[Key, object], positions: Positions) -> dict[Key, int]:
    """Return the position that each partition is to have. *Raises* `BadUsage` for a name that there is not."""
    known = {shown(key): key for key in sorted(committed.keys() | positions.keys())}
    named = {text: point for text, point in wishes if text is not None}
    others = [point for text, point in wishes if text is None]
    unknown = next((text for text in named if text not in known), None)
    if unknown is not None:
        raise BadUsage(f"there is no position {unknown!r}; there are {', '.join(list(known)[:10]) or 'none'}")
    if len(others) > 1:
        raise BadUsage("two places for all partitions; give one, and name the partitions of the others")
    points = (dict.fromkeys(known, others[0]) if others else {}) | named
    return {known[text]: placed(known[text], point, positions) for text, point in points.items()}


def placed(key: Key, point: Point, positions: Positions) -> int:
    """Return the position that *point* is."""
    if key in positions:
        source, partition = positions[key]
        return position_of(source, partition, point)
    if isinstance(point, int):
        return point
    raise BadUsage(f"where {shown(key)} is {point} only its source knows; give --app MODULE:APP, or a position")


def changes(committed: Mapping[Key, Committed], wanted: Mapping[Key, int]) -> Iterator[str]:
    """Say what a reset would change."""
    rows = [(shown(key), committed[key].position if key in committed else None, "→", wanted[key]) for key in wanted]
    yield from table(("partition", "before", "", "after"), rows[:CHANGES_SHOWN_MAX])
    if len(rows) > CHANGES_SHOWN_MAX:
        yield f"  … and {len(rows) - CHANGES_SHOWN_MAX:,} more"


def covered(found: Found, wanted: Mapping[Key, int]) -> set[Any]:
    """Return the partitions whose queries read the positions."""
    group = look(found.opened.registry, found.name)
    return set() if group is None else {each for each in map(lease_over, wanted) if each in group.holds}


# ---- migrate and rollback

NEXT: dict[tuple[Phase, str], str] = {
    ("old", "migrate"): "nothing has begun: run this again",
    ("dual to new", "migrate"): "restart the nodes one by one with --offsets dual, then run this again",
    ("dual", "migrate"): "a step was interrupted: run this again",
    ("dual to old", "migrate"): "run this again",
    ("new", "migrate"): "done; restart the nodes one by one with --offsets new when it suits you",
    ("new", "rollback"): "nothing has begun: run this again",
    ("dual to old", "rollback"): "restart the nodes one by one with --offsets dual, then run this again",
    ("dual", "rollback"): "a step was interrupted: run this again",
    ("dual to new", "rollback"): "run this again",
    ("old", "rollback"): "done; restart the nodes one by one with --offsets old when it suits you",
}


def move(where: str | None, name: str | None, *, old: str, new: str, back: bool, look_only: bool) -> int:
    """Take the next step of a group from *old* to *new*, or *back*; *where* its nodes keep their leases."""
    if old == new:
        raise BadUsage("--from and --to are the same place")
    with found_group(where or old, name) as found, both(found, old, new) as migration:
        found.document()
        before = migration.phase(found.name)
        step = migration.rollback if back else migration.migrate
        phase = before if look_only else found.despite_the_dead(lambda: step(found.name))
        say(f"group {found.name}: {phase}" + ("" if look_only or phase == before else f" (it was: {before})"))
        differing = migration.compare(found.name)
    if phase.startswith("dual") and differing:
        say(f"{plural(len(differing), 'position')} differ between the two, as commits are under way")
    say(NEXT[phase, "rollback" if back else "migrate"])
    return 0


@contextmanager
def both(found: Found, old: str, new: str) -> Iterator[Migration]:
    """Open the two stores of a group that moves, by the leases that it has where its nodes meet."""
    leases = lease_authority(found.opened.registry, found.name)
    with closing(open_offsets(old, leases)) as first, closing(open_offsets(new, leases)) as second:
        yield Migration(first, second, settings(found))


def settings(found: Found) -> Callable[[str], Mapping[str, Any]]:
    """Return what says with which setting each member was started."""

    def members(name: str) -> Mapping[str, Any]:
        group = look(found.opened.registry, found.name)
        return {} if group is None else {each: seat.profile.offsets for each, seat in group.members.items()}

    return members
