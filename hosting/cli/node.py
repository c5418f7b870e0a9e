"""`reliable-rx node`: one process's share of an app, until somebody says stop.

The node runs in a thread of its own, and this one shows what it does and hears signals. The first SIGTERM or Ctrl-C
hands everything over in order; a second Ctrl-C ends the process as a crash would: nothing durable is lost, but the
others wait for a session before they take over.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, fields
from typing import Literal

from checkpoint.offsets import Migration, OffsetStore
from hosting.cli.loading import load_app, name_of
from hosting.cli.run import Stop
from hosting.cli.terminal import complain, drawn_over, flush, outlives, say
from hosting.cli.wording import FAILED, BadUsage, log_to_stderr, plural, table
from hosting.edges.positions import Point
from hosting.partitioned.assign import assignor_named
from hosting.partitioned.beats import Profile
from hosting.partitioned.node import LEAVE_S, Node
from hosting.partitioned.opening import Opened, is_on_a_server, lease_authority, open_group, open_offsets
from hosting.partitioned.sections import sections_of
from hosting.partitioned.store_beside import holds_both, way_apart
from hosting.partitioned.tending import look
from hosting.partitioned.timing import Timing
from hosting.partitioned.words import Assignor, Partition
from reliable_rx.errors import StoreOwned

LOOK_S = 0.5
SHOWN_MAX = 32
HANDING_OVER_S = 10.0
"""How long it is handed over before it is told what is not."""
UNLISTED = ("start", "source")
"""Incidents of a node that cannot tell which partitions there are."""
GIVE_UP_S = LEAVE_S + HANDING_OVER_S
"""How long the node is waited for, which by itself gives up before that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the command line says of a node."""

    store: str
    group: str | None
    instance: str | None
    tag: str | None
    room: str | None
    capacity: int
    only: list[str]
    first: Point
    assignor: str
    session: float | None
    closing: float | None
    gather: float | None
    sleep_after: float
    commit_interval: float
    threads: int
    new_offsets: str | None
    offsets: Literal["old", "dual", "new"] | None
    until_ended: bool
    plain: bool


def run_node(where: str, settings: Settings) -> int:
    """Run a node of the app named by *where*; return 0 when it has been stopped and has given everything back, 3 if
    something in its partitions fails."""
    app, group = load_app(where), settings.group or name_of(where)
    log_to_stderr()
    assignor, timing, profile = assignor_of(settings), timing_of(settings), profile_of(settings)
    sections = [section.name for section in sections_of(app)]
    if not sections:
        raise BadUsage(f"{where} declares no query, so a node has nothing to run: declare one with app.query(...)")
    check_owned(settings.only, sections)
    with (
        outlives(), Stop() as stop, closing(opened_for_node(settings.store, group)) as opened, ExitStack() as closed,
    ):  # fmt: skip
        node = Node(
            app, opened.registry, offsets_of(settings, opened, group, closed), opened.stores,
            group=group, profile=profile, timing=timing, assignor=assignor, start=settings.first,
            sleep_after_s=settings.sleep_after, commit_interval_s=settings.commit_interval, threads=settings.threads,
        )  # fmt: skip
        told_timing(timing, opened, group)
        say(f"node {profile.instance or profile.tag} of group {group} in {settings.store}")
        running = Running(node, until_ended=settings.until_ended, ended=stop.wake)
        try:
            with drawing(plain=settings.plain) as draw:
                while running.is_alive():
                    draw(node)
                    if stop.wait(LOOK_S):
                        say("handing everything over; Ctrl-C again to stop at once")
                        node.stop()
                        if not hand_over(node, running):
                            os._exit(end_unheard(node))
        except KeyboardInterrupt:
            complain("stopped without handing over; the others take over after a session")
            flush()
            os._exit(130)
    if running.error is not None:
        raise running.error
    if node.replaced:
        complain(f"stopped: another node has been started as instance {settings.instance!r}, and has its partitions")
        return 1
    return last_words(node, stopped=stop.asked)


def opened_for_node(where: str, group: str) -> Opened:
    """Open what the nodes of *group* share. *Raises* `BadUsage` where a store is."""
    if not is_on_a_server(where) and holds_both(where):
        raise BadUsage(way_apart(where))
    try:
        return open_group(where, group)
    except StoreOwned as error:
        raise BadUsage(error.message) from error


def last_words(node: Node, *, stopped: bool) -> int:
    """Say how a node has ended, *stopped* or by itself, and what fails on it; return its exit code."""
    has_left = node.has_left or not stopped
    if not has_left:
        complain_of_rest(why_not(node))
    else:
        say("stopped: everything has been handed over" if stopped else why_ended(node))
    for line in (*failing(node), *own_troubles(node)):
        complain(line)
    return exit_code(node) if has_left else 1


def why_ended(node: Node) -> str:
    """Say why a node has ended by itself.

    >>> from types import SimpleNamespace
    >>> why_ended(SimpleNamespace(incidents=SimpleNamespace(open=lambda: [])))
    'all partitions have ended'
    """
    if any(each.kind in UNLISTED for each in node.incidents.open()):
        return "stopped: the partitions that the group knows have ended, and others could not be looked for"
    return "all partitions have ended"


def complain_of_rest(why: str) -> None:
    complain(f"stopped without handing everything over ({why}); others take over after a session, from what is stored")


def why_not(node: Node) -> str:
    """Say why not everything could be handed over."""
    if node.trouble is not None:
        return str(node.trouble)
    return f"not stopped in time: {shown(node.agents)}" if node.agents else "its session had ended"


def end_unheard(node: Node) -> int:
    """Say the last words of a node that waits for what does not answer; return its exit code."""
    stalls = [each.message for each in node.incidents.open() if each.kind == "stall"]
    complain_of_rest(stalls[0] if stalls else why_not(node))
    flush()
    return 1


def shown(partitions: Iterable[Partition]) -> str:
    """Name *partitions*, or as many as fit."""
    names = sorted(map(str, partitions))
    return ", ".join(names[:SHOWN_MAX]) + (f" and {len(names) - SHOWN_MAX:,} more" if len(names) > SHOWN_MAX else "")


def exit_code(node: Node) -> int:
    """Return 3 if something fails on a node, its partitions included; else 0."""
    own = any(each.level == "error" and each.kind != "partition" for each in node.incidents.open())
    return FAILED if node.failing or own else 0


def hand_over(node: Node, running: threading.Thread) -> bool:
    """Wait until everything is given back, and name what is not; return False if the node itself does not get on."""
    give_up_at = time.monotonic() + GIVE_UP_S
    while time.monotonic() < give_up_at:
        running.join(HANDING_OVER_S)
        if not running.is_alive():
            return True
        why = "" if node.trouble is None else f" ({node.trouble})"
        complain(f"still waiting for {shown(node.agents) or 'the group'}{why}")
        for line in failing(node):
            complain(line)
    return False


class Running(threading.Thread):
    """A node at work, which says when it has *ended*; *error* is what ended it, if that was not as asked."""

    def __init__(self, node: Node, *, until_ended: bool, ended: Callable[[], None]) -> None:
        super().__init__(name="node", daemon=True)
        self.error: Exception | None = None
        self._node, self._until_ended, self._ended = node, until_ended, ended
        self.start()

    def run(self) -> None:
        try:
            self._node.run(until_ended=self._until_ended)
        except Exception as error:
            self.error = error
        finally:
            self._ended()


# ---- what the command line says


def assignor_of(settings: Settings) -> Assignor:
    try:
        return assignor_named(settings.assignor)
    except ValueError as error:
        raise BadUsage(f"{error}; an assignor that needs more is for a program that makes the Node itself") from error


def timing_of(settings: Settings) -> Timing:
    said = {"session_s": settings.session, "closing_s": settings.closing, "gather_s": settings.gather}
    try:
        return Timing(**{name: value for name, value in said.items() if value is not None})
    except ValueError as error:
        raise BadUsage(str(error)) from error


def told_timing(timing: Timing, opened: Opened, group: str) -> None:
    """Say so if the group goes by other times than this node would have said."""
    found = look(opened.registry, group)
    if found is not None and found.timing != timing:
        said = ", ".join(f"{each.name} {getattr(found.timing, each.name):g}" for each in fields(Timing))
        complain(f"group {group} goes by what its first node said: {said}")


def profile_of(settings: Settings) -> Profile:
    sources = frozenset(each for each in settings.only if "/" not in each)
    pairs = (each.split("/", 1) for each in settings.only if "/" in each)
    partitions = frozenset(Partition(source, name) for source, name in pairs)
    return Profile(
        instance=settings.instance,
        tag=settings.tag or socket.gethostname(),
        room=settings.room,
        capacity=settings.capacity,
        sources=sources or None,
        partitions=partitions or None,
        offsets=settings.offsets,
    )


def check_owned(only: Sequence[str], sections: Sequence[str]) -> None:
    """*Raises* `BadUsage` for what no app like this has. Partitions may come later."""
    unknown = next((each for each in only if not any(f"{each}/".startswith(f"{name}/") for name in sections)), None)
    if unknown is not None:
        raise BadUsage(f"--only {unknown}: the app has no such source; what it shares out is {', '.join(sections)}")


def offsets_of(settings: Settings, opened: Opened, group: str, closed: ExitStack) -> OffsetStore:
    """Return the store of positions that a node with this setting reads and writes."""
    if (settings.offsets is None) != (settings.new_offsets is None):
        raise BadUsage("--offsets and --new-offsets belong together: the setting, and where the positions move to")
    if settings.offsets is None or settings.new_offsets is None:
        return opened.offsets
    leases = lease_authority(opened.registry, group)
    new = closed.enter_context(closing(open_offsets(settings.new_offsets, leases)))
    return Migration(opened.offsets, new, lambda group: {}).store_for(settings.offsets)


# ---- what is shown


@contextmanager
def drawing(*, plain: bool) -> Iterator[Callable[[Node], None]]:
    """Show a node again and again: drawn over on a terminal, elsewhere a line when something has changed."""
    if plain:
        yield Changes().show
        return
    with drawn_over() as draw:
        yield Changes().show if draw is None else lambda node: draw(screen(node))


class Changes:
    """A line whenever the node holds others than before, or cannot do what it should."""

    def __init__(self) -> None:
        self._said = ""

    def show(self, node: Node) -> None:
        text = summary(node)
        if text != self._said:
            self._said = text
            say(f"{time.strftime('%H:%M:%S')}  {text}")


def summary(node: Node) -> str:
    """Say in a line what a node holds.

    >>> from types import SimpleNamespace
    >>> summary(SimpleNamespace(agents={}, trouble=None, failing={}))
    '0 partitions here'
    """
    agents = node.agents.values()
    names = ", ".join(sorted(f"{each.lease.partition} (epoch {each.lease.epoch})" for each in agents)[:SHOWN_MAX])
    text = f"{plural(len(agents), 'partition')} here" + (f": {names}" if names else "")
    text += "".join(f"; {each}" for each in failing(node, most=3))
    return text + (f"; waiting: {node.trouble}" if node.trouble is not None else "")


def failing(node: Node, *, most: int = 10) -> Iterator[str]:
    """Say which partitions fail here, and why.

    >>> from types import SimpleNamespace
    >>> list(failing(SimpleNamespace(failing={"logs/a": "the disk is full", "logs/b": "the same"}), most=1))
    ['logs/a fails: the disk is full', '1 partition more fails']
    """
    found = sorted(node.failing.items())
    yield from (f"{partition} fails: {message}" for partition, message in found[:most])
    if len(found) > most:
        yield f"{plural(len(found) - most, 'partition')} more {'fails' if len(found) == most + 1 else 'fail'}"


def own_troubles(node: Node) -> Iterator[str]:
    """Say what fails on a node beside its partitions."""
    return (str(each) for each in node.incidents.open() if each.kind != "partition")


def screen(node: Node) -> Iterator[str]:
    """Write what a node holds, line by line."""
    agents = sorted(node.agents.items())
    yield f"group {node.group}: {plural(len(agents), 'partition')} here"
    yield ""
    yield from table(
        ("partition", "epoch", "position", ""),
        (
            (str(partition), agent.lease.epoch, position, "asleep" if agent.asleep else "")
            for partition, agent in agents[:SHOWN_MAX]
            for position in [min(agent.positions.values()) if len(agent.positions) == 1 else None]
        ),
    )
    if len(agents) > SHOWN_MAX:
        yield f"  … and {len(agents) - SHOWN_MAX:,} more"
    yield from failing(node)
    if node.trouble is not None:
        yield f"waiting: {node.trouble}"
