"""Partitions that a source has only since it has ended: they stay unread until a query begins that reads the source.

Their queries have been told that it has ended, so nobody would see what is in them: read at once, as tomorrow's file of
a daily batch was, it would be gone without a word. So their positions stay as they are, an incident names them, and
they appear right behind the turn that creates a query which reads their source. Before that one another says that the
source may go on (`hosting.expecting`). Which they are is no state: a start finds the same.

Rejected: reading them at once (nobody gets what is in them), running the queries that have ended again by ourselves
(they would begin without state, and whoever reads their streams was told of the end), and refusing the start (the other
sources have nothing to do with it).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from hosting.expecting import is_read
from hosting.own_clocks import selects, sources_of
from hosting.standing import RUNNING
from hosting.store_commands import command_on
from hosting.turn import Create, Expect
from reliable_rx.names import query_of
from reliable_rx.plan import Plan

if TYPE_CHECKING:
    from hosting.engine import QueryEngine
    from hosting.evaluator import QueryEvaluator

AFTER_THE_END = "after the end"
NAMED_MAX = 3
Key = tuple[str, str]
EndOf = Callable[[str], tuple[Exception | None] | None]
"""With which error, if any, a source has ended for its queries; None if it goes on."""


class LatePartitions:
    """The partitions of an intake that have come when their source had ended."""

    def __init__(self) -> None:
        self.kept: dict[Key, None] = {}
        self.end_of: EndOf = lambda source: None
        self.untold: set[str] = set()
        """Sources of which it is yet to be told that they have such, or no longer have."""

    def sift(self, unknown: dict[Key, None]) -> None:
        """Keep of the *unknown* partitions those of sources that have ended; give back those of one that goes on."""
        for key in [*self.kept, *unknown]:
            has_ended, is_kept = self.end_of(key[0]) is not None, key in self.kept
            if has_ended == is_kept:
                continue
            before, behind = (unknown, self.kept) if has_ended else (self.kept, unknown)
            del before[key]
            behind[key] = None
            self.untold.add(key[0])

    def give_back(self, source: str, unknown: dict[Key, None]) -> None:
        """Make those of *source* unknown again: the next turns tell of them."""
        for key in [key for key in self.kept if key[0] == source]:
            del self.kept[key]
            unknown[key] = None
        self.untold.add(source)

    @property
    def sources(self) -> set[str]:
        """Name the sources that have such."""
        return {source for source, _ in self.kept}

    def names_of(self, source: str) -> list[str]:
        """Name those of *source*."""
        return [name for each, name in self.kept if each == source]


def take_create(evaluator: QueryEvaluator, turn: Create) -> None:
    """Take *turn*, and let what has come behind the end of a source in for the query that reads it from then on."""
    late = evaluator.intake.late
    if not late.kept:  # nearly always
        evaluator._take(turn)
        return
    sources = [each for each in sorted(late.sources) if may_be_read(evaluator, turn, each)]
    for source in sources:
        evaluator._take(Expect(source, True))
    evaluator._take(turn)
    decide(evaluator, sources)
    if evaluator.reporter.has_begun:
        tell_late(evaluator)


def decide(evaluator: QueryEvaluator, sources: Iterable[str]) -> None:
    """Let in what has come behind the end of *sources*, for which it was waited, or have them ended again."""
    intake = evaluator.intake
    for source in sources:
        is_there = any(each == source for each, _ in (*intake.late.kept, *intake.unknown))
        is_wanted = is_there and is_read(evaluator.engine, source)
        evaluator._take(intake.let_in(source) if is_wanted else Expect(source, False))


def may_be_read(evaluator: QueryEvaluator, turn: Create, source: str) -> bool:
    """Whether the query of *turn* may read *source*; behind an error of it nothing is read any more."""
    if evaluator.intake.late.end_of(source) != (None,):
        return False
    plan: Plan = turn.code
    streams = {query_of(each) for each in plan.sources}
    return source in streams or any(selects(node) for node in plan.walk())


def ended_over(engine: QueryEngine, source: str) -> list[str]:
    """Name the queries that read *source* and have ended."""
    standing = engine.standing.items()
    return [name for name, each in standing if each.status != RUNNING and source in sources_of(each.plan)]


def tell_late(evaluator: QueryEvaluator) -> None:
    """Warn of the sources that have such partitions, and say by what they are read; close what is over."""
    late = evaluator.intake.late
    untold, late.untold = late.untold, set()
    for source in sorted(untold):
        if late.names_of(source):
            evaluator.incidents.report(AFTER_THE_END, source, told(evaluator, source), level=logging.WARNING)
        else:
            left = ended_over(evaluator.engine, source)
            but = f", but not for {shown_some(left)}, which stay ended" if left else ""
            evaluator.incidents.resolve(AFTER_THE_END, source, now=f"is read{but}")
            evaluator.reporter.is_over(AFTER_THE_END, source)


def told(evaluator: QueryEvaluator, source: str) -> str:
    """Say which partitions of *source* are not read, and what to do."""
    late, absent = evaluator.intake.late, evaluator.intake.absent
    names = late.names_of(source)
    have, they = ("have", "they are") if len(names) > 1 else ("has", "it is")
    what = (
        f"partition{'s' * (len(names) > 1)} {shown_some(names)} {have} come since all that it had was read to its end"
    )
    if late.end_of(source) != (None,):
        return (
            f"{what}, and {they} not read, since it has ended with an error: declare it under another name, and let "
            f"the queries read that"
        )
    gone = sorted(name for each, name in absent if each == source)
    renamed = f"; {shown_some(gone)} is not there any more: if it was renamed, its records come again" if gone else ""
    return f"{what}, and {they} not read before a query begins that reads it{way_to_read(evaluator, source)}{renamed}"


def way_to_read(evaluator: QueryEvaluator, source: str) -> str:
    """Say how queries over *source* that have ended are run again, as the end of a sentence."""
    ended = ended_over(evaluator.engine, source)
    if not ended:
        return ": create one"
    command = command_on(evaluator.store, "restart", ended[0], "--app", "MODULE:APP")
    call = f"evaluator.restart({ended[0]!r})"
    way = call if command is None else f"`{command}` before the next start ({call} in a program)"
    others = f"; restart {shown_some(ended[1:])} in the same way, before anything is read" if ended[1:] else ""
    return f": run {ended[0]!r} again, without state and under the ids that follow, with {way}{others}"


def shown_some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return f"{', '.join(map(repr, names[:NAMED_MAX]))}{more}"
