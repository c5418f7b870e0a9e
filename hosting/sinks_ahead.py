"""Sinks that have ids which the store has never given: its newest turns are lost, or they are another store's.

Damage of the newest commit, and an older copy of the store, cannot be told from a power cut by the store itself: the
app's sinks show it. A repair takes what they have beyond the store for what the lost turns have given: a stream with a
sink goes on behind what that has, and only of others is it guessed. Rejected: taking the events again under the ids
that the sinks have (with several sources, other values may get them).

A stream that the store has never had, beside others that it has, has lost nothing: its query was renamed, or its sink
was given the file of another one. That is said, and no repair helps: to pass ids over would harm the other streams.

Where outputs are visible before their turn is journalled (`at_least_once`), a crash leaves sinks ahead too. What they
have comes again, under later ids. The ids between are passed over: a stand-in lies under each, so that the stream has
no hole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from checkpoint.salvage import Unreadable
from hosting.store_commands import command_on
from hosting.turn import Output
from reliable_rx.arguments import plural
from reliable_rx.errors import PositionUnavailable
from reliable_rx.interrupts import let_through
from reliable_rx.names import query_of
from reliable_rx.reliable import Sink

if TYPE_CHECKING:
    from checkpoint.store import StoreReader
    from hosting.evaluator import QueryEvaluator

AHEAD_MAX = 1_000_000
"""How many ids a sink may be ahead for a repair to help."""
COMES_AGAIN = "it was shown before a crash that lost its turn, and comes again under a later id"
"""Why a stand-in is not its value: sinks that do not have that pass over it."""
Sinks = Sequence[tuple[str, Callable[[], int | None]]]
"""What tells the position of each sink of an app, by stream."""


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


def had_by(evaluator: QueryEvaluator) -> frozenset[str]:
    """Behind a replay: name the queries and sources that the store has had; none of one in which nothing has begun."""
    if not evaluator.engine.number:
        return frozenset()
    sources = {key[0] for key in evaluator.intake.partitions if key not in evaluator.intake.unknown}
    return frozenset({*evaluator.engine.standing, *evaluator.engine.suspended, *sources})


def check_had(evaluator: QueryEvaluator, stream: str, position: int, *, others: Collection[str] = ()) -> None:
    """*Raises* `PositionUnavailable` if a sink has ids up to *position* of a *stream* that the store has never had.

    *others* are the streams with a sink: it is told whose ids those may be that no sink is for any more.
    """
    had, engine = evaluator.outlets.had, evaluator.engine
    if not had or query_of(stream) in had or engine.emitted(stream) or engine.suspended.lost_turns:
        return
    if evaluator.store.bounds(stream) is not None:
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


def hear(evaluator: QueryEvaluator, known: Mapping[str, int]) -> None:
    """Behind a start: take streams for known of which a sink has all that the store has given, or more."""
    engine = evaluator.engine
    engine.suspended.quiet = [
        name for name in engine.suspended.quiet if name not in known or known[name] < engine.emitted(name)
    ]


def passed_over(stream: str, first: int, behind: int) -> Output:
    """Return what lies under ids that a sink has been given before a crash, and the store has not."""
    return Output(stream, first, [Unreadable(f"value of {stream!r}", COMES_AGAIN)] * (behind - first))


def positions(sinks: Sinks) -> dict[str, int]:
    """Return the highest position of a sink, by stream. What a sink raises the next start will say."""
    found: dict[str, int] = {}
    for stream, ask in sinks:
        try:
            position = ask()
        except BaseException as raised:
            let_through(raised)
            continue
        if position is not None:
            found[stream] = max(position, found.get(stream, 0))
    return found


def opened_position(stream: str, make: Callable[[], Sink]) -> int | None:
    """Open the sink that *make* returns to be asked, and close it."""
    sink = make()
    try:
        return sink.open(stream)
    finally:
        sink.close()


def lose_newest(evaluator: QueryEvaluator, known: Mapping[str, int]) -> dict[str, int]:
    """Behind a start: note how many ids of lost turns sinks show; return by stream how far each is ahead.

    *known* is where sinks stand, by stream. *Raises* `PositionUnavailable` if that is not of this store.
    """
    engine, store, suspended = evaluator.engine, evaluator.store, evaluator.engine.suspended
    ahead = {name: known[name] - engine.emitted(name) for name in known if known[name] > engine.emitted(name)}
    if evaluator.delivery != "exactly_once":
        ahead = {}
    for name in ahead:
        check_had(evaluator, name, known[name], others=known)
        if ahead[name] > AHEAD_MAX:
            raise ahead_of_store(store, name, known[name], engine.emitted(name))
    if ahead.keys() - set(suspended.quiet):  # of the others the newest turns that are left would tell
        suspended.lost_ids = max(ahead.values())
        suspended.quiet = sorted({*engine.standing, *evaluator.streams, *store.streams()})
    hear(evaluator, known)
    return ahead
