"""Recognition of a sink that the store knows under another label: a moved file.

A project folder that is moved, a release folder, a container's path and a restored copy give each sink a path that no
checkpoint has seen; the app declares its sinks as before. A new sink takes the place of one of its stream and its class
that is not declared, if it says itself that it has all that was durable in the other one, by its position when it is
opened, and is called as the other one in another folder. (If it has the ids of another stream, it is not opened.)

Each takes the place of one, of several the highest that it can have, if that is called so. All else is told with the
names of both, and keeps its place (`hosting.edges.sink_positions` has where a new sink begins that does not say what it
has). The decision is made again after a kill, as the next checkpoint is the first that knows of it. Rejected: the last
parts of paths alone (the file may be another one), positions alone (two streams that exchange their files would both be
taken for moved), to let every place go that the new one is not behind (two files that an app has made one of were two
on purpose), and a function for the one whose name is gone (what was taken out, while another one was put in, came back
without its place).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hosting.edges.holders import Patience, StreamHolders
from hosting.edges.sink_positions import Known, described
from hosting.reports.log import LOG
from hosting.reports.store_commands import way_to_release

if TYPE_CHECKING:
    from hosting.edges.egress import Stream
    from hosting.edges.sink_writer import SinkWriter

SHOWN_MAX = 3
GONE = "the app does not declare this sink any more"


def place_taken(writer: SinkWriter, left: Mapping[str, Known]) -> str | None:
    """Return the holder, of those *left*, whose place *writer* takes, which is open; None if that is not certain.

    Of several places it takes the highest, so that the stream keeps what any of them may lack, whichever is which.
    """
    if writer.was_known or writer.had is None:
        return None
    alike = {holder: each for holder, each in left.items() if each.kind == writer.kind}
    name = os.path.basename(writer.label)

    def is_likely(holder: str) -> tuple[int, bool]:
        return alike[holder].position, os.path.basename(alike[holder].label) == name

    fits = [holder for holder, each in alike.items() if each.position <= writer.had]
    best = max(fits, key=is_likely, default=None)
    return best if best is not None and is_likely(best)[1] else None


def tell_taken(writer: SinkWriter, before: Known, holders: StreamHolders) -> None:
    """Say in the log whose place *writer* has taken."""
    where = f"{place}: " if (place := holders.incidents.place) else ""
    LOG.info(
        "%sthe sink of %r that was %s is now %s, which goes on at id %s",
        where, writer.stream, before, described(writer.kind, writer.label), f"{writer.position:,}",
    )  # fmt: skip


def tell_new(writer: SinkWriter, position: int, holders: StreamHolders) -> None:
    """Warn that *writer* is new and begins at *position*, since it may be a sink that is not declared any more."""
    where = f"{place}: " if (place := holders.incidents.place) else ""
    LOG.warning(
        "%sthe sink of %r that is %s is new, and begins at id %s, where one is that the last app had in its place",
        where, writer.stream, described(writer.kind, writer.label), f"{position:,}",
    )  # fmt: skip


def tell_left(stream: Stream, holder: str, known: Known, new: Sequence[SinkWriter]) -> None:
    """Warn that nobody declares a sink, and name the *new* ones that were not taken for it."""
    others = ", ".join(_beside(each) for each in new[:SHOWN_MAX]) + (" and others" if len(new) > SHOWN_MAX else "")
    beside = f"; new is {others}" if new else ""
    why = f"{GONE}: {known}, which has what is below id {known.position:,}{beside}"
    registry = stream.registry
    stream.leave(holder, registry.absence(why, Patience.NONE))
    way = way_to_release(registry.store, stream.name, holder)
    message = f"{why}; declare it again (under this label, if it was renamed), or let it go with {way}"
    registry.incidents.report("holder", f"{stream.name}/{holder}", message, level=logging.WARNING)


def _beside(writer: SinkWriter) -> str:
    has = f"which {'begins at' if writer.had is None else 'has what is below'} id {writer.position:,}"
    return f"{described(writer.kind, writer.label)}, {has if writer.is_open else 'which has not been opened'}"
