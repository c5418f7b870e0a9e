"""Partitions that a source has only since it has ended: they stay unread until a query begins that reads the source.

Their queries have been told that it has ended, so nobody would see what is in them: read at once, as tomorrow's file of
a daily batch was, it would be gone without a word. So their positions stay as they are, an incident names them, and
they appear right behind the turn that creates a query which reads their source. Before that one another says that the
source may go on (`hosting.engine.expecting`). Which they are is no state: a start finds the same. If a query is new or
edited at a start, that says nothing of those that have ended and would miss them: then they stay unread until a
`restart` names for whom they are, several together in one group of turns. One that is edited and would read nothing
else stays as it ended until then: it would complete at once, with the result of an empty day.

Rejected: reading them at once (nobody gets what is in them), running the queries that have ended again by ourselves
(they would begin without state, and whoever reads their streams was told of the end), and refusing the start (the other
sources have nothing to do with it).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hosting.engine.cycles import name_of
from hosting.engine.editing import is_same
from hosting.engine.event_time.validation import selects, sources_of
from hosting.engine.expecting import is_read
from hosting.engine.hosted_query import RUNNING
from hosting.engine.turns import Create, Expect
from hosting.reports.causes import in_reading_order
from hosting.reports.store_commands import command_on
from reliable_rx.names import query_of
from reliable_rx.runtime.plan import Plan

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine
    from hosting.evaluator.evaluator import QueryEvaluator

AFTER_THE_END = "after the end"
NAMED_MAX, RESTARTED_MAX = 3, 50
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
        self.shut: set[str] = set()
        """Those of which none is let in by what a start creates."""

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

    def forget(self, key: Key) -> None:
        """Let one that is read now wait no more, if it did."""
        if key in self.kept:
            del self.kept[key]
            self.untold.add(key[0])

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
        evaluator.turns.take(turn)
        return
    sources = [each for each in sorted(late.sources - late.shut) if may_be_read(evaluator, turn, each)]
    for source in sources:
        evaluator.turns.take(Expect(source, True))
    evaluator.turns.take(turn)
    decide(evaluator, sources)
    if evaluator.reporter.has_begun:
        tell_late(evaluator)


def decide(evaluator: QueryEvaluator, sources: Iterable[str]) -> None:
    """Let in what has come behind the end of *sources*, for which it was waited, or have them ended again."""
    intake = evaluator.intake
    for source in sources:
        is_there = any(each == source for each, _ in (*intake.late.kept, *intake.unknown))
        is_wanted = is_there and is_read(evaluator.engine, source)
        evaluator.turns.take(intake.let_in(source) if is_wanted else Expect(source, False))


def may_be_read(evaluator: QueryEvaluator, turn: Create, source: str) -> bool:
    """Whether the query of *turn* may read *source*; behind an error of it nothing is read any more."""
    if evaluator.intake.late.end_of(source) != (None,):
        return False
    plan: Plan = turn.code
    streams = {query_of(each) for each in plan.sources}
    return source in streams or any(selects(node) for node in plan.walk())


@contextmanager
def shut_for_some(evaluator: QueryEvaluator) -> Iterator[None]:
    """Let nothing in that queries would miss which have ended, and do not begin anew with the start."""
    late, engine = evaluator.intake.late, evaluator.engine
    late.shut = {each for each in late.sources if any(not begins(engine, name) for name in missing(engine, each))}
    try:
        yield
    finally:
        late.shut = set()


def begins(engine: QueryEngine, name: str) -> bool:
    """Whether a query that has ended is declared as another one."""
    there, turn = engine.standing[name], engine.suspended.declared.get(name)
    return turn is not None and there.status != RUNNING and not is_same(engine, there, turn)


def held_back(evaluator: QueryEvaluator) -> dict[str, str]:
    """Return which edited queries wait for a restart, each with the source of which nothing is let in before that."""
    engine, late = evaluator.engine, evaluator.intake.late
    held = {name: each for each in sorted(late.shut) for name in missing(engine, each) if begins(engine, name)}
    while True:
        left = {name: each for name, each in held.items() if has_nothing_else(evaluator, name, held)}
        if left == held:
            return held
        held = left


def has_nothing_else(evaluator: QueryEvaluator, name: str, held: Collection[str]) -> bool:
    """Whether all that the query *name* reads, as it is declared, has ended, and more of it is to come."""
    engine, late = evaluator.engine, evaluator.intake.late
    plan: Plan = engine.suspended.declared[name].code
    read = {query_of(each) for each in plan.sources}
    over = {each for each in read if each in held or (each in evaluator.intake.sources and late.end_of(each))}
    stays = {each for each in read - over if each in engine.standing and not begins(engine, each)}
    over |= {each for each in stays if engine.standing[each].status != RUNNING}
    is_known = not any(selects(node) for node in plan.walk())
    return is_known and read == over and not read.isdisjoint({*late.shut, *held})


def missing(engine: QueryEngine, source: str) -> list[str]:
    """Name the queries that read *source* and get nothing more of it: they have ended, or have been told of its end."""
    return [*ended_over(engine, source), *went_on(engine, source)]


def ended_over(engine: QueryEngine, source: str) -> list[str]:
    """Name the queries that have ended and read *source*, or streams of such that do, behind those that they read."""
    reading: dict[str, list[str]] = {}
    for name, each in engine.standing.items():
        for read in sources_of(each.plan):
            reading.setdefault(query_of(read), []).append(name)
    found, waiting = set[str](), [source]
    while waiting:
        new = {*reading.get(waiting.pop(), ())} - found
        found |= new
        waiting += new
    ended = [name for name in found if engine.standing[name].status != RUNNING]
    return [*in_reading_order(engine, ended)]


def went_on(engine: QueryEngine, source: str) -> list[str]:
    """Name the queries that run on without *source*, as they have been told of its end."""
    route, marks = engine.routes.get(source), engine.watermarks.by_source.get(source, ())
    reading = {name_of(instance) for instance, _ in route.readers()} if route is not None else set[str]()
    reading |= {clock.standing.name for mark in marks for clock in mark.clocks() if source not in clock.ended}
    running = [(name, each.plan) for name, each in engine.standing.items() if each.status == RUNNING]
    return sorted(name for name, plan in running if name not in reading and source in sources_of(plan))


def tell_late(evaluator: QueryEvaluator) -> None:
    """Warn of the sources that have such partitions, and say by what they are read; close what is over."""
    late = evaluator.intake.late
    untold, late.untold = late.untold, set()
    for source in sorted(untold):
        if late.names_of(source):
            evaluator.incidents.report(AFTER_THE_END, source, told(evaluator, source), level=logging.WARNING)
        else:
            left = missing(evaluator.engine, source)
            but = f", but not for {shown_some(left)}, for which it has ended" if left else ""
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
    tied = sources_with(evaluator, source)
    names = [*dict.fromkeys(name for each in tied for name in missing(evaluator.engine, each))]
    running = sorted({name for each in tied for name in went_on(evaluator.engine, each)})
    if not names:
        return ": create one"
    shown, left = names[:RESTARTED_MAX], len(names) - RESTARTED_MAX
    command = command_on(evaluator.store, "restart", *shown, "--app", "MODULE:APP")
    call = f"evaluator.restart({', '.join(map(repr, shown))})"
    way = call if command is None else f"`{command}` before the next start ({call} in a program)"
    more = f"; there are {left:,} more, to be named in the same call" if left > 0 else ""
    more += f"; {shown_some(running)} would lose the state with which it runs on without" if running else ""
    them = "" if len(names) == 1 else " all that are to have it, together,"
    return f": run {shown_some(names)} again,{them} without state and under the ids that follow, with {way}{more}"


def sources_with(evaluator: QueryEvaluator, source: str) -> list[str]:
    """Name *source* and those that queries read beside it, if they have such partitions too: all of it begins at once.

    A query that reads two of them begins with both, and then nothing of the other is left for those that read that one.
    """
    engine, late = evaluator.engine, evaluator.intake.late.sources
    found, waiting = [source], [source]
    while waiting:
        plans = [engine.standing[name].plan for name in missing(engine, waiting.pop())]
        new = sorted({each for plan in plans for each in sources_of(plan) if each in late and each not in found})
        found += new
        waiting += new
    return found


def shown_some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return f"{', '.join(map(repr, names[:NAMED_MAX]))}{more}"
