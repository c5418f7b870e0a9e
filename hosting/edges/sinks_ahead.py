"""Sinks that have ids which the store has never given: its newest turns are lost, or they are another store's.

Damage of the newest commit, and an older copy of the store, cannot be told from a power cut by the store itself: the
app's sinks show it. A repair takes what they have beyond the store for what the lost turns have given: a stream with a
sink goes on behind what that has, and only of others is it guessed. So it is of a sink that has nothing before it is
flushed: readers may have had more. Rejected: taking the events again under the ids
that the sinks have (with several sources, other values may get them).

A stream that the store has never had, beside others that it has, has lost nothing: its query was renamed, or its sink
was given the file of another one. That is said, and no repair helps: to pass ids over would harm the other streams.

Where outputs are visible before their turn is journalled (`at_least_once`), a crash leaves sinks ahead too. What they
have comes again, under later ids. The ids between are passed over: a stand-in lies under each, so that the stream has
no hole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from checkpoint.format.salvage import Unreadable
from checkpoint.store import StoreReader
from hosting.edges.closing import let_go
from hosting.engine.engine import QueryEngine
from hosting.engine.turns import Output
from hosting.reports.store_commands import command_on
from hosting.sinks.origins import claim
from reliable_rx.class_of import is_a
from reliable_rx.errors import PositionUnavailable
from reliable_rx.interrupts import let_through
from reliable_rx.names import query_of
from reliable_rx.operators.contract.arguments import plural
from reliable_rx.operators.contract.choices import Delivery
from reliable_rx.reliable import Inspectable, Origin, Sink

AHEAD_MAX = 1_000_000
"""How many ids a sink may be ahead for a repair to help."""
COMES_AGAIN = "it was shown before a crash that lost its turn, and comes again under a later id"
"""Why a stand-in is not its value: sinks that do not have that pass over it."""


class Had(NamedTuple):
    """How far the sinks of a stream are, and how far those of them are that have at once what is written to them."""

    position: int
    at_once: int = -1


Sinks = Sequence[tuple[str, Callable[[str], Had | None]]]
"""What tells how far each sink of an app is with the ids of a store, which is given by its owner, by stream."""


def ahead_of_store(store: StoreReader, stream: str, position: int, given: int) -> PositionUnavailable:
    """Return the error for a sink of *stream* that has ids up to *position*, of which *store* has *given* only some."""
    command = command_on(store, "store repair", "--app", "MODULE:APP")
    ways = ["give the sink of this store, or a new one"]
    if command is not None:
        ways += ["restore the newest copy of the store", f"or have its ids passed over with `{command}`"]
    return PositionUnavailable(
        f"a sink of stream {stream!r} already has {plural(position, 'id')}, but this store has emitted only "
        f"{given:,}: the sink belongs to another store, or the newest turns of this one are lost (its newest "
        f"commit is damaged, or it is an older copy); {', '.join(ways)}",
        wanted=position,
        first=None,
        end=given,
    )


class Partitions(Protocol):
    """The partitions of an evaluator's sources, and those of them that no turn has told of."""

    @property
    def partitions(self) -> Mapping[tuple[str, str], object]: ...
    @property
    def unknown(self) -> Collection[tuple[str, str]]: ...


def had_by(engine: QueryEngine, intake: Partitions) -> frozenset[str]:
    """Behind a replay: name the queries and sources that the store has had; none of one that has had no query."""
    queries = {*engine.standing, *engine.suspended}
    if not (queries or engine.retired.by_name or engine.retired.buckets):
        return frozenset()
    return frozenset(queries | {key[0] for key in intake.partitions if key not in intake.unknown})


def check_had(
    engine: QueryEngine,
    store: StoreReader,
    stream: str,
    position: int,
    *,
    had: Collection[str],
    others: Collection[str] = (),
) -> None:
    """*Raises* `PositionUnavailable` if a sink has ids up to *position* of a *stream* that *store* has never had.

    *had* names the queries and sources that it has had, *others* are the streams with a sink: it is told whose ids
    those may be that no sink is for any more.
    """
    if not had or query_of(stream) in had or engine.emitted(stream) or engine.suspended.lost_turns:
        return
    if store.bounds(stream) is not None:
        return
    free = sorted(each for each in had if each not in others and engine.emitted(each) == position)
    like = f", as many as {free[0]!r} has given, which has no sink" if free else ""
    old = f"the old one, {free[0]!r}" if free else "the old one"
    raise PositionUnavailable(
        f"a sink of stream {stream!r} already has {plural(position, 'id')}{like}, but this store has never had a query "
        f"{query_of(stream)!r}: if one was renamed, give the sink of the new name another file or table, or keep {old}",
        wanted=position,
        first=None,
        end=0,
    )


def may_have_given(engine: QueryEngine, store: StoreReader, streams: Collection[str]) -> set[str]:
    """Name the streams to which lost turns may have written: those may have created queries that are declared, too."""
    return {*engine.standing, *engine.suspended.declared, *streams, *store.streams()}


def hear(engine: QueryEngine, known: Mapping[str, Had]) -> None:
    """Behind a start: take streams for known of which a sink has all that the store has given, or more.

    A sink that has nothing before it is flushed, which checkpoints do, tells nothing of what lost turns have given. Nor
    does an empty one of a query that the store does not know: it may be another one.
    """
    engine.suspended.quiet = [
        name
        for name in engine.suspended.quiet
        if name not in known or known[name].at_once < (engine.emitted(name) or name not in engine.standing)
    ]


def passed_over(stream: str, first: int, behind: int) -> Output:
    """Return what lies under ids that a sink has been given before a crash, and the store has not."""
    return Output(stream, first, [Unreadable(f"value of {stream!r}", COMES_AGAIN)] * (behind - first))


def refuses_start(error: BaseException) -> bool:
    """Whether what a sink raises at its opening refuses the start: none of its ids was ever to be had here."""
    return is_a(error, PositionUnavailable) and getattr(error, "fields", {"first": 0}).get("first") is None


def positions(sinks: Sinks, store: StoreReader, *, as_start: bool = False) -> dict[str, Had]:
    """Return how far the sinks of *store* are, by stream.

    What a sink raises the next start will say; *as_start* *Raises* what refuses that.
    """
    found: dict[str, Had] = {}
    for stream, ask in sinks:
        try:
            had = ask(store.owner)
        except BaseException as raised:
            let_through(raised)
            if as_start and refuses_start(raised):
                raise
            continue
        if had is not None:
            before = found.get(stream, had)
            found[stream] = Had(max(had.position, before.position), max(had.at_once, before.at_once))
    return found


def had(sink: object, position: int | None) -> Had | None:
    """Return what a *position* says that *sink* has told; None if it does not know what it has."""
    if position is None:
        return None
    return Had(position, position if getattr(sink, "writes_at_once", False) is True else -1)


def stored_position(stream: str, sink: Inspectable, store: str) -> Had | None:
    """Ask a sink, which need not be opened for that, for the ids of *store*."""
    claim(sink, Origin(stream, store=store))
    return had(sink, sink.stored_position(stream))


def opened_position(stream: str, make: Callable[[], Sink], store: str) -> Had | None:
    """Open the sink that *make* returns to be asked, and close it."""
    sink = make()
    try:
        claim(sink, Origin(stream, store=store))
        return had(sink, sink.open(stream))
    finally:
        let_go(f"the sink of {stream!r}", sink.close)


class Started(Protocol):
    """An evaluator that has started."""

    @property
    def engine(self) -> QueryEngine: ...
    @property
    def store(self) -> StoreReader: ...
    @property
    def streams(self) -> Collection[str]: ...
    @property
    def had(self) -> Collection[str]:
        """The queries and sources that the store had before this start."""

    @property
    def delivery(self) -> Delivery: ...


def lose_newest(evaluator: Started, known: Mapping[str, Had], *, has_lost: bool = False) -> dict[str, int]:
    """Behind a start: note how many ids of lost turns sinks show; return by stream how far each is ahead.

    *known* is how far sinks are, by stream. What *has lost* turns may have had any of them. *Raises*
    `PositionUnavailable` if that is not of this store.
    """
    engine, store, suspended = evaluator.engine, evaluator.store, evaluator.engine.suspended
    ahead = {name: more for name in known if (more := known[name].position - engine.emitted(name)) > 0}
    if evaluator.delivery != "exactly_once":
        ahead = {}
    for name in ahead:
        if not has_lost:
            check_had(engine, store, name, known[name].position, had=evaluator.had, others=known)
        if ahead[name] > AHEAD_MAX:
            raise ahead_of_store(store, name, known[name].position, engine.emitted(name))
    if ahead.keys() - set(suspended.quiet):  # of the others the newest turns that are left would tell
        suspended.lost_ids = max(ahead.values())
        suspended.quiet = sorted(may_have_given(engine, store, evaluator.streams))
    hear(engine, known)
    return ahead
