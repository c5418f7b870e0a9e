"""What a repair does about stored outputs that are lost: what stands for them has their ids, and the rest can be read.

A start reads no output that is stored, and a stream of which one is missing or damaged can be read by nobody, so
whoever asks for it hears of that long after. A repair looks at all of them. Rejected: giving up what lies before (it
is whole, and a sink may lack it).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkpoint.format.codec import decode_data
from checkpoint.format.salvage import Unreadable
from hosting.edges.stored_outputs import cut
from hosting.engine.hosted_query import RUNNING
from hosting.engine.turns import Output
from reliable_rx.errors import CheckpointRefused

if TYPE_CHECKING:
    from hosting.evaluator.evaluator import QueryEvaluator

Span = tuple[int, int]
"""The first, and the one behind the last."""


def lost_outputs(evaluator: QueryEvaluator, *, everywhere: bool = False) -> dict[str, list[Span]]:
    """Behind a start: return which ids the store has lost of its streams, up to where its checkpoint is.

    What is behind that comes again from the journal. With *everywhere* it is looked at too.
    """
    found: dict[str, list[Span]] = {}
    for name in evaluator.store.streams():
        stream = evaluator.streams.get(name)
        if stream is None and not evaluator.engine.emitted(name):
            continue  # there never was one: a row's name is damaged, and the ids are missing where they belong
        stored = evaluator.engine.emitted(name) if stream is None else stream.stored
        lost, expected = list[Span](), None
        for first, count, payload in evaluator.store.kept_outputs(name):
            if expected is not None and first > expected:
                note(lost, expected, first)
            expected = first + count
            if payload is None:
                note(lost, first, expected)
        if expected is not None and expected < stored:
            note(lost, expected, stored)
        if not everywhere:
            lost = [(first, min(behind, stored)) for first, behind in lost if first < stored]
        if lost:
            found[name] = lost
    return found


def note(lost: list[Span], first: int, behind: int) -> None:
    """Add ids to those that are *lost*, in order."""
    if lost and lost[-1][1] >= first:
        first, _ = lost.pop()
    lost.append((first, behind))


def check_outputs(evaluator: QueryEvaluator) -> None:
    """*Raises* `CheckpointRefused` if outputs that are stored are missing or damaged."""
    for name, lost in lost_outputs(evaluator, everywhere=True).items():
        what = f"ids {lost[0][0]:,} to {lost[0][1] - 1:,} of stream {name!r} are lost"
        raise CheckpointRefused(f"{what}; restore a copy of the store", what=what, where=name)


def fill_outputs(evaluator: QueryEvaluator) -> None:
    """Behind a start: put what stands for lost outputs in their places; the next checkpoint stores it."""
    for name, lost in lost_outputs(evaluator).items():
        stream = evaluator.stream(name)
        whole = list[Output]()
        for first, count, payload in evaluator.store.kept_outputs(name):
            if payload is not None and first < stream.stored:
                (values, ended, error), _ = decode_data(payload)
                whole.append(cut(Output(name, first, values, ended, error), min(first + count, stream.stored)))
        filled = [stand_ins(evaluator, name, *each) for each in lost]
        stream.mend(sorted([*whole, *filled], key=lambda each: each.first), lost[0][0])
        evaluator.streams.changed[name] = None


def stand_ins(evaluator: QueryEvaluator, name: str, first: int, behind: int) -> Output:
    """Return what stands for lost ids; the end of a query that has ended is known."""
    standing = evaluator.engine.standing.get(name)
    ended = standing is not None and standing.status != RUNNING and behind == standing.emitted
    values = [Unreadable(f"value of {name!r}", "the store has lost it")] * (behind - first - ended)
    return Output(name, first, values, ended, standing.error if standing is not None and ended else None)
