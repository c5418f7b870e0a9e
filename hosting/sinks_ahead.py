"""Sinks that have ids which the store has never given: its newest turns are lost, or they are another store's.

Damage of the newest commit, and an older copy of the store, cannot be told from a power cut by the store itself: the
app's sinks show it. A repair takes what they have beyond the store for what the lost turns have given. Rejected: taking
the events again under the ids that the sinks have (with several sources, other values may get them).

Where outputs are visible before their turn is journalled (`at_least_once`), a crash leaves sinks ahead too. What they
have comes again, under later ids. The ids between are passed over: a stand-in lies under each, so that the stream has
no hole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from checkpoint.salvage import Unreadable
from hosting.store_commands import command_on
from hosting.turn import Output
from reliable_rx.arguments import plural
from reliable_rx.errors import PositionUnavailable
from reliable_rx.interrupts import let_through
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
    """Behind a start: note as many turns as lost as sinks are ahead by ids; return by stream how far each is ahead.

    *known* is where sinks stand, by stream. *Raises* `PositionUnavailable` if that is too far to be of this store.
    """
    if evaluator.delivery != "exactly_once":
        return {}
    engine, store = evaluator.engine, evaluator.store
    ahead = {name: known[name] - engine.emitted(name) for name in known if known[name] > engine.emitted(name)}
    for name in ahead:
        if ahead[name] > AHEAD_MAX:
            raise ahead_of_store(store, name, known[name], engine.emitted(name))
    if ahead.keys() - set(engine.suspended.quiet):  # of the others the newest turns that are left would tell
        newest = (engine.number + 1, engine.number + 1 + max(ahead.values()))
        engine.suspended.lost_turns = [*engine.suspended.lost_turns, newest]
        engine.suspended.quiet = sorted({*engine.standing, *evaluator.streams, *store.streams()})
    return ahead
