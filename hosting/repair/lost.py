"""What a repair does about turns and pushed values that a store has lost, or cannot take again.

Ids that were used stay used: they are known from the records of the journal that are whole, each by itself, from the
outputs that are stored, and from the sinks of the app. Pushed values that are lost are stepped over (`LOST` in
`hosting.sources.pushed`), under the ids that were promised for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from checkpoint.format.codec import encode
from checkpoint.format.salvage import salvage
from checkpoint.sealed_log.journal import Journal
from checkpoint.sealed_log.log import Log
from hosting.edges.sinks_ahead import Had, may_have_given, passed_over
from hosting.evaluator.unloaded import fill
from hosting.sources.pushed import LOST, PushedStream
from reliable_rx.errors import CheckpointRefused

if TYPE_CHECKING:
    from hosting.evaluator.evaluator import QueryEvaluator

DONE = {"create": "created or edited", "dispose": "disposed of", "fail": "ended"}
QUIET_EACH, QUIET_MAX = 1000, 1_000_000
"""How many ids further a stream goes on for each lost turn, if nothing tells how many that used; at most so many."""
QUIET_TIMES = 10
"""For each id that a sink has of the newest turns, of which it is not known how many are lost, so many of a stream of
which nothing tells."""
QUIET_WITHOUT = 100_000
"""The least of these where the store does not know of one turn."""
STANDS_FOR_LOST = encode((LOST, None))
Span = tuple[int, int]
"""The first, and the one behind the last."""


def before_gap(journal: Journal, after_turn: int) -> int:
    """Return the last of the turns behind *after_turn* before one that is lost."""
    last = after_turn
    for first, count, _ in journal.readable(after_turn):
        if first > last + 1:
            break
        last = first + count - 1
    return last


def pass_over(evaluator: QueryEvaluator, after_turn: int) -> list[str]:
    """Take none of the journalled turns behind *after_turn* again; return what that gives up, in words.

    Their events are taken anew, under other ids than those that were used: these stay used.
    """
    store, told, missing, seen = evaluator.store, list[str](), list[Span](), set[str]()
    suspended, expected, last = evaluator.engine.suspended, after_turn + 1, store.journal.last_turn
    for first, count, payload in store.journal.readable(after_turn):
        if first > expected:
            missing.append((expected, first))
            seen.clear()
        expected = first + count
        entries, written, *_ = salvage(payload, code=False).value
        fill(evaluator.engine, evaluator.streams, written, written)
        seen |= written.keys()
        told += [
            f"query {entry[1]!r} was {DONE[entry[0]]} in turns that are passed over, and is not"
            for entry in entries
            if entry[0] in DONE
        ]
    if expected <= last:
        missing.append((expected, last + 1))
        seen.clear()
    evaluator.engine.number = max(evaluator.engine.number, last)
    suspended.passed_over = (after_turn + 1, last + 1) if last > after_turn else None
    if missing:
        suspended.lost_turns = missing
        for stream in store.streams():
            bounds = store.bounds(stream)
            use_up(evaluator, stream, 0 if bounds is None else bounds[1])
        suspended.quiet = sorted(may_have_given(evaluator.engine, store, evaluator.streams) - seen)
    return told


def ids_further(evaluator: QueryEvaluator) -> int:
    """Return by how much a stream goes on of which it is not known how many ids lost turns have used."""
    suspended = evaluator.engine.suspended
    of_turns = QUIET_EACH * sum(behind - first for first, behind in suspended.lost_turns)
    least = QUIET_EACH if evaluator.outlets.had else QUIET_WITHOUT
    of_newest = max(least, QUIET_TIMES * suspended.lost_ids) if suspended.lost_ids else 0
    return min(QUIET_MAX, of_turns + of_newest)


def use_up(evaluator: QueryEvaluator, stream: str, behind: int) -> None:
    """Let no id of *stream* before *behind* be used again."""
    fill(evaluator.engine, evaluator.streams, {stream: (b"", behind)}, [stream])


def use_up_unknown(evaluator: QueryEvaluator, known: Mapping[str, Had]) -> None:
    """Let no id be used again that sinks have, which is *known* by stream, or that lost turns may have used.

    Readers may have had more than a sink, which writes behind them, waits, or has failed.
    """
    for stream, had in known.items():
        use_up(evaluator, stream, had.position)
    for stream in evaluator.engine.suspended.quiet:
        at = evaluator.engine.emitted(stream)
        behind = at + ids_further(evaluator)
        evaluator.streams.append([passed_over(stream, at, behind)])
        evaluator.engine.continue_ids(stream, behind)


class LostValues(NamedTuple):
    """Which values of a pushed input are *missing*, of which the checkpoint is at *position*."""

    name: str
    position: int
    missing: list[Span]


class LostPushed(NamedTuple):
    """What is lost of pushed inputs, and which subscribers, by stream and name, begin again; None: they go on."""

    values: Sequence[LostValues]
    begin_again: Sequence[tuple[str, str]] | None


def fill_pushed(evaluator: QueryEvaluator) -> LostPushed:
    """Before a start: have lost pushed values stepped over.

    Positions of durable subscribers lie beside them. Where the newest values are lost, a position may be one of before:
    its subscriber may have been let go since, or have begun again at a lower id.
    """
    store, is_cut = evaluator.store, False
    found, fills = list[LostValues](), list[tuple[Log, int, int]]()
    positions, taken = pushed_positions(evaluator)
    for name, source in evaluator.intake.sources.items():
        if isinstance(source, PushedStream):
            log, position = source.log, positions.get((name, "0"), 0)
            first, behind = min(log.first, position), max(log.end, position, taken.get((name, "0"), 0))
            if missing := log.lost(first, behind):
                is_cut = is_cut or behind > log.end
                found.append(LostValues(name, position, missing))
                fills.append((log, first, behind))
    subscribed = [(stream, each) for stream in store.subscribed() for each in store.acknowledged(stream)]
    for stream, subscriber in subscribed if is_cut else ():
        store.release(stream, subscriber)
        store.acknowledge(stream, subscriber, -1)
    for log, first, behind in fills:
        log.fill(first, behind, STANDS_FOR_LOST)
    return LostPushed(found, subscribed if is_cut else None)


def pushed_positions(evaluator: QueryEvaluator) -> tuple[dict[Any, int], dict[Any, int]]:
    """Return what the checkpoint has taken of each partition, and up to where the turns behind it have."""
    store = evaluator.store
    try:
        recovered = store.recover(strict=False)
    except CheckpointRefused:
        recovered = None
    turn = 0 if recovered is None else recovered.turn
    positions: dict[Any, int] = {} if recovered is None else salvage(recovered.meta, code=False).value["positions"]
    taken: dict[Any, int] = {}
    for _, _, payload in store.journal.readable(turn):
        for entry in salvage(payload, code=False).value[0]:
            if entry[0] == "events":
                taken[entry[1], entry[2]] = entry[3] + entry[4]
    return positions, taken


def check_pushed(evaluator: QueryEvaluator) -> None:
    """*Raises* `CheckpointRefused` if a pushed value that is still to be read is lost."""
    for (name, _), partition in evaluator.intake.partitions.items():
        source = evaluator.intake.sources[name]
        if isinstance(source, PushedStream):
            for first, behind in source.log.lost(partition.position, source.log.end):
                what = f"ids {first:,} to {behind - 1:,} that were pushed into {name!r} are lost"
                raise CheckpointRefused(f"{what}; restore a copy of the store", what=what, where=name)
