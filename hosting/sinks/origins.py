"""Origins of the ids of a target: how they are kept beside it, and what may not be mixed.

A target that has no ids takes any origin, and one that does not say whose its ids are (an older release wrote it, or
its line was damaged) takes the next one that writes it. Who opens a sink by hand names a stream and no store: that is
the stream of any.
"""

from __future__ import annotations

import json
from dataclasses import astuple, fields, replace

from reliable_rx.errors import CheckpointRefused, PositionUnavailable
from reliable_rx.reliable import Claiming, Origin


def text_of(origin: Origin) -> str:
    """Return *origin* as a line of text.

    >>> text_of(Origin("totals", store="3f2a"))
    '["totals", "3f2a", "", ""]'
    """
    return json.dumps(astuple(origin))


def origin_in(text: str) -> Origin | None:
    """Return the origin that *text* is of; None for none.

    >>> origin_in(text_of(Origin("totals", store="3f2a"))), origin_in("")
    (Origin(stream='totals', store='3f2a', partition='', group=''), None)
    """
    found = json.loads(text) if text else None
    if not isinstance(found, list) or len(found) != len(fields(Origin)):
        return None
    stream, store, partition, group = map(str, found)
    return Origin(stream, store=store, partition=partition, group=group)


def claim(sink: object, origin: Origin) -> None:
    """Tell *sink*, if it asks for that, the *origin* of its ids."""
    if isinstance(sink, Claiming):
        sink.claim(origin)


def check_origin(found: Origin | None, origin: Origin, next_id: int, *, what: str, where: str, remedy: str) -> None:
    """Check that *what*, which has the ids below *next_id*, was not *found* to have those of another origin.

    *Raises* `CheckpointRefused` for another stream or partition: that sink is pointed at the wrong place.
    `PositionUnavailable` for another store or group, of whose ids none is to be had here: it may be the wrong store.
    """
    if not next_id or found is None or is_same(found, origin):
        return
    up_to = f"up to {next_id - 1:,}"
    if (found.store, found.group) == (origin.store, origin.group) or not (_has_giver(found) and _has_giver(origin)):
        has = f"has the ids of {_place_of(found)} {up_to}, not of {_place_of(origin)}"
        raise CheckpointRefused(f"{what} {has}; {remedy}", what=has, where=where)
    one = "group" if origin.group else "store"
    ours = f"{one} {origin.group!r} ({origin.store[:8]})" if origin.group else f"store {origin.store[:8]}"
    raise PositionUnavailable(
        f"{what} has the ids of {found} {up_to}, and belongs to another {one} than {ours}: "
        f"start with the {one} that it belongs to, or {remedy}",
        wanted=next_id,
        first=None,
        end=None,
    )


def better(found: Origin | None, origin: Origin) -> Origin:
    """Return which is to be kept beside a target: what was *found* there if *origin* says less, and is no other.

    >>> better(Origin("totals", store="3f2a"), Origin("totals")).store
    '3f2a'
    """
    return found if found is not None and is_same(found, origin) and not _has_giver(origin) else origin


def is_same(found: Origin, origin: Origin) -> bool:
    """Whether ids of the one may stand behind those of the other."""
    if not (_has_giver(found) and _has_giver(origin)):
        return found.stream == origin.stream
    return found == origin


def _has_giver(origin: Origin) -> bool:
    """Whether *origin* says more than the name of a stream."""
    return bool(origin.store or origin.group or origin.partition)


def _place_of(origin: Origin) -> str:
    return str(replace(origin, store="", group=""))
