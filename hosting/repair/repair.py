"""What keeps a store from starting, and what can be done about it at which price.

A copy of the store is started as its app starts it, but without sinks, and what it keeps for readers is read. Where
that works there is nothing to repair, whatever else could be said. Where it is refused, the copy is started without
the demands of a strict evaluator, and what comes out are findings, each with what a repair does about it and what that
gives up. Nothing is written before somebody has agreed. Rejected: a second opinion on what a start would refuse (it
called healthy stores broken, and broken ones healthy); repairing the files themselves (what is damaged is refused and
fallen back from, see `checkpoint`; what is repaired here is whole, and cannot be used as it is).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Protocol

from checkpoint.sqlite.rescue import told_of_positions
from hosting.edges.sinks_ahead import Sinks, hear, lose_newest, positions
from hosting.evaluator.evaluator import QueryEvaluator
from hosting.evaluator.group_commit import PassesOver
from hosting.evaluator.source_positions import OTHER_RECORDS
from hosting.repair.lost import check_pushed, fill_pushed, ids_further, use_up_unknown
from hosting.repair.lost_outputs import StoredOutputs
from reliable_rx.errors import CheckpointRefused, NondeterminismDetected, StoreOwned, StoreUnavailable, described
from reliable_rx.names import query_of

NAMED_MAX = 10
UNREADABLE = "each is kept as unreadable; a sink that lacks them fails there, or does what its on_error= says"
ITSELF = re.compile(r"[;,]? (?:or|see) [^;]*?(?:'reliable-rx store repair'|`reliable-rx store repair[^`]*`)[^;,]*")
"""How errors name this as one of the ways."""


class Copy(Protocol):
    """A copy of a store; each call opens it anew, and builds an evaluator that has not started."""

    sinks: Sinks

    def as_app(self) -> QueryEvaluator:
        """Build what starts as the app does, without sinks."""

    def to_repair(self) -> QueryEvaluator:
        """Build what takes the turns of the app, and is not strict."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with *subject*, what a repair does about it, and what that gives up.

    What *depends_on_app* may only be wrong because the sources and classes of the app are not there.
    """

    subject: str
    wrong: str
    remedy: str
    depends_on_app: bool = True

    def lines(self) -> tuple[str, str]:
        """Return what is wrong, and what a repair does about it."""
        return f"{self.subject}: {self.wrong}", f"    repair: {self.remedy}"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found, and which of the journalled turns behind the checkpoint are to be passed over.

    *refusal* is why the app does not start; without one *findings* are empty, and *notes* say what its start does.
    *remains* is why it would still not start behind the repair.
    """

    refusal: str | None
    findings: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
    passes_over: PassesOver = ""
    remains: str | None = None

    def of(self, original: Callable[[str], str]) -> Diagnosis:
        """Return what was found in a copy as what is wrong with the *original*, which says it of that one."""

        def told(text: str) -> str:
            return original(ITSELF.sub("", text))

        findings, notes = (
            tuple(replace(each, wrong=told(each.wrong)) for each in some) for some in (self.findings, self.notes)
        )
        refusal, remains = (None if each is None else told(each) for each in (self.refusal, self.remains))
        return replace(self, refusal=refusal, findings=findings, notes=notes, remains=remains)


def diagnose(copy: Copy) -> Diagnosis:
    """Say what keeps the app from starting on *copy*, which is repaired on the way.

    *Raises* `StoreOwned`, `StoreUnavailable`, `CheckpointRefused` for a store of which no generation can be read, and
    `PositionUnavailable` for a sink of another store.
    """
    refusal, notes = tried(copy)
    nothing: tuple[PassesOver, list[Finding], bool] = ("", [], False)
    passes_over, findings, has_lost = nothing if refusal is None else noticed(copy)
    found = Diagnosis(refusal, tuple(findings), notes if refusal is None else (), passes_over)
    if findings:
        repair(copy.to_repair(), found)
        found = replace(found, remains=tried(copy)[0])
    if found.remains is None and (findings or refusal is None):
        sinks = ahead(copy, has_lost=has_lost)
        found = replace(found, refusal=refusal or (sinks[0].wrong if sinks else None), findings=(*findings, *sinks))
    return found


def tried(copy: Copy) -> tuple[str | None, tuple[Finding, ...]]:
    """Start as the app does; return why that is refused, or else what that does to queries."""
    evaluator = copy.as_app()
    try:
        evaluator.start()
        check_pushed(evaluator)
        StoredOutputs(evaluator.store, evaluator.streams, evaluator.engine).check()
        evaluator.store.journal.check_order()
        return None, tuple(given_up(evaluator))
    except (StoreOwned, StoreUnavailable):
        raise
    except Exception as error:
        return described(error), ()
    finally:
        evaluator.abandon()


def noticed(copy: Copy) -> tuple[PassesOver, list[Finding], bool]:
    """Start without strictness; return which turns are passed over, what is given up, and whether any are lost."""
    modes: tuple[PassesOver, ...] = ("", "gap")
    pushed, cause = pushed_lost(copy), None
    for mode in modes:
        try:
            findings, has_lost = found(copy, mode, cause)
            return mode, [*pushed, *findings], has_lost
        except (StoreOwned, StoreUnavailable):
            raise
        except Exception as error:
            cause = error
    findings, has_lost = found(copy, "all", cause)
    return "all", [*pushed, *findings], has_lost


def pushed_lost(copy: Copy) -> list[Finding]:
    """Have lost pushed values stepped over, and name them."""
    evaluator = copy.to_repair()
    try:
        values, subscribers = fill_pushed(evaluator)
        told = [stepped_over(*each) for each in values]
        return told if subscribers is None else [*told, beginning_again(subscribers)]
    finally:
        evaluator.abandon()


def found(copy: Copy, passes_over: PassesOver, cause: Exception | None) -> tuple[list[Finding], bool]:
    evaluator = copy.to_repair()
    evaluator.passes_over = passes_over
    try:
        evaluator.start()
        outputs = unread(evaluator)
        has_lost = bool(evaluator.engine.suspended.lost_turns)
        if has_lost:
            hear(evaluator.engine, positions(copy.sinks, evaluator.store))
        told = [*behind(evaluator, cause), *lost(evaluator), *disordered(evaluator)]
        return [*told, *outputs, *given_up(evaluator)], has_lost
    finally:
        evaluator.abandon()


def behind(evaluator: QueryEvaluator, cause: Exception | None) -> list[Finding]:
    """Say what it means to leave turns behind the checkpoint, if *cause* keeps them away."""
    passed = evaluator.engine.suspended.passed_over
    if cause is None or passed is None:
        return []
    lost = [each for each in evaluator.warnings if each.startswith("query ")]
    more = f"; {'; '.join(lost)}" if lost else ""
    return [
        Finding(
            "journal",
            f"{span('turn', passed[0], passed[1] - 1)} cannot be taken again: {described(cause)}",
            f"passed over: the events are taken anew, and what had come of them comes again under new ids; the ids "
            f"that were used stay used{more}",
        )
    ]


def beginning_again(subscribers: Sequence[tuple[str, str]]) -> Finding:
    """Say what the loss of what was pushed last means for durable *subscribers*: their positions lie beside it."""
    wrong = "what was pushed last is lost, and with it what they had acknowledged since"
    return Finding("subscribers", wrong, f"given up: {', '.join(told_of_positions(subscribers))}", depends_on_app=False)


def stepped_over(name: str, position: int, missing: list[tuple[int, int]]) -> Finding:
    """Say which values of the pushed input *name*, which a checkpoint has up to *position*, are *missing*."""
    ids = ", ".join(span("id", first, upto - 1) for first, upto in missing)
    unread = ", ".join(span("id", max(first, position), upto - 1) for first, upto in missing if upto > position)
    gives_up = f"the values of {unread} are given up" if unread else "the checkpoint has what came of them"
    return Finding(f"pushed input {name!r}", f"{ids} lost", f"stepped over, and not used again; {gives_up}")


def lost(evaluator: QueryEvaluator) -> list[Finding]:
    """Say what it means that turns behind the checkpoint are not there."""
    missing, figures = evaluator.engine.suspended.lost_turns, evaluator.recovery
    if not missing:
        return []
    turns = ", ".join(span("turn", first, upto - 1) for first, upto in missing)
    found = [Finding("journal", f"{turns} lost", stay_used(evaluator))]
    if figures is not None and not figures.generation and missing[0][0] == 1:
        anew = "all queries begin anew, with the events that their sources still have"
        found.append(Finding("checkpoint", "none is left", anew))
    return found


def stay_used(evaluator: QueryEvaluator) -> str:
    """Say what is done about the ids that lost turns have used."""
    remedy = "ids that they used stay used, as far as other turns, stored outputs and the sinks of the app tell them"
    if quiet := evaluator.engine.suspended.quiet:
        more = f" and {len(quiet) - NAMED_MAX:,} more" if len(quiet) > NAMED_MAX else ""
        named = ", ".join(map(repr, quiet[:NAMED_MAX])) + more
        further, kept = ids_further(evaluator), evaluator.streams.retain_events
        remedy += f"; where none of these tells ({named}), by a guess the ids go on {further:,} further"
        if further >= kept:
            remedy += f", past retain_events={kept:,}: unless the app has a larger one, none reads what lies before"
    return remedy


def unread(evaluator: QueryEvaluator) -> list[Finding]:
    """Name stored outputs that are missing or damaged."""
    found = []
    for name, ids in StoredOutputs(evaluator.store, evaluator.streams, evaluator.engine).lost().items():
        more = f" and {len(ids) - NAMED_MAX:,} more spans" if len(ids) > NAMED_MAX else ""
        named = ", ".join(span("id", first, upto - 1) for first, upto in ids[:NAMED_MAX])
        found.append(Finding(f"stream {name!r}", f"{named}{more} lost", UNREADABLE, depends_on_app=False))
    return found


def disordered(evaluator: QueryEvaluator) -> list[Finding]:
    """Name records that are missing where no start needs them, and each checkpoint looks."""
    try:
        if not evaluator.engine.suspended.lost_turns:
            evaluator.store.journal.check_order()
    except CheckpointRefused as error:
        return [Finding("journal", described(error), "all records are dropped, behind a checkpoint that has them")]
    return []


def ahead(copy: Copy, *, has_lost: bool) -> list[Finding]:
    """Name the sinks that have ids which the store has never given. *Raises* what a sink refuses the start with."""
    evaluator = copy.to_repair()
    known = positions(copy.sinks, evaluator.store, as_start=True)
    known = known if evaluator.delivery == "exactly_once" else {}
    try:
        evaluator.start()
        return [
            Finding(
                f"sink of stream {name!r}",
                f"it has {span('id', known[name].position - more, known[name].position - 1)}, which this store has "
                f"never given: the newest turns are lost, or it is the sink of another store",
                f"{stay_used(evaluator)}; the events of lost turns are taken anew, and what comes of them comes again "
                f"under new ids",
            )
            for name, more in lose_newest(evaluator, known, has_lost=has_lost).items()
        ]
    finally:
        evaluator.abandon()


def span(noun: str, first: int, last: int) -> str:
    """Name those from *first* to *last*.

    >>> span("turn", 3, 3), span("id", 1000, 1001)
    ('turn 3', 'ids 1,000 to 1,001')
    """
    return f"{noun} {first:,}" if first == last else f"{noun}s {first:,} to {last:,}"


def given_up(evaluator: QueryEvaluator) -> list[Finding]:
    """Name what an evaluator had to give up to start."""
    return [
        *fallen_back(evaluator),
        *redefined(evaluator),
        *differing(evaluator),
        *ended(evaluator),
        *misfits(evaluator),
        *suspended(evaluator),
        *unmade(evaluator),
    ]


def fallen_back(evaluator: QueryEvaluator) -> list[Finding]:
    figures = evaluator.recovery
    return [
        Finding("checkpoint", each, "the one before is used, and a whole one is written", depends_on_app=False)
        for each in (() if figures is None else figures.fallbacks)
    ]


def redefined(evaluator: QueryEvaluator) -> list[Finding]:
    """Name the sources whose functions are not those that have read the turns that were read again."""
    gives_up = (
        "its turns are read again with what it is now: states and outputs are what comes of that, under the ids that "
        "were used; who has read these has the old. With the old code back nothing is given up"
    )
    return [
        Finding(f"source {name!r}", described(error), gives_up)
        for name, error in evaluator.definitions.passed_over.items()
    ] + [
        Finding(f"source {name!r}", described(error), "it is read on from the numbers that it had: " + OTHER_RECORDS)
        for name, error in evaluator.definitions.positions.passed_over.items()
    ]


def differing(evaluator: QueryEvaluator) -> list[Finding]:
    goes_on = "it goes on with what its turns give today, under the ids that they had; who has read these has the old"
    return [
        Finding(f"query {name!r}", described(error), goes_on)
        for name, error in evaluator.engine.suspended.differing.items()
        if name not in evaluator.engine.suspended.ended
    ]


def ended(evaluator: QueryEvaluator) -> list[Finding]:
    remedies = {
        True: "it ends with this error behind what it has emitted; create it again once it is mended",
        False: "its state is given up, and it ends with this error; restart it to begin anew",
    }
    return [
        Finding(
            f"query {name!r}",
            described(error),
            remedies[isinstance(error, NondeterminismDetected)] + readers_told(evaluator, name),
        )
        for name, error in evaluator.engine.suspended.ended.items()
    ]


def misfits(evaluator: QueryEvaluator) -> list[Finding]:
    gives_up = "what its operators had of that is given up, and they begin afresh"
    return [
        Finding(f"query {name!r}", described(error), gives_up)
        for name, error in evaluator.engine.suspended.misfits.items()
    ]


def readers_told(evaluator: QueryEvaluator, name: str) -> str:
    """Name the queries that fail with *name*, since they read it or what does; empty if there is none."""
    found, waiting = list[str](), [name]
    while waiting:
        at = waiting.pop()
        fresh = [
            each
            for each, standing in evaluator.engine.standing.items()
            if each not in (name, *found) and at in map(query_of, standing.plan.sources)
        ]
        found += fresh
        waiting += fresh
    names = ", ".join(map(repr, sorted(found)))
    return f"; with it {names}, which read it: their states are given up too" if found else ""


def suspended(evaluator: QueryEvaluator) -> list[Finding]:
    if evaluator.engine.suspended.other_code is None:
        return []
    return [
        Finding(f"query {name!r}", kept.why, "its state is kept, and it goes on when the app that declares it starts")
        for name, kept in evaluator.engine.suspended.items()
    ]


def unmade(evaluator: QueryEvaluator) -> list[Finding]:
    return [
        Finding(
            f"stream {name!r}",
            f"{span('id', first, behind - 1)} in use before a crash cannot be made again",
            UNREADABLE,
        )
        for name, (first, behind) in evaluator.engine.suspended.unmade.items()
    ]


def repair(evaluator: QueryEvaluator, diagnosis: Diagnosis, sinks: Sinks = ()) -> dict[str, Any]:
    """Do what *diagnosis* says, on a fresh evaluator that is not strict; return the status of each query.

    The *sinks* are asked which ids they have.
    """
    with closing(evaluator):
        evaluator.passes_over = diagnosis.passes_over
        fill_pushed(evaluator)
        evaluator.start()
        StoredOutputs(evaluator.store, evaluator.streams, evaluator.engine).fill()
        is_broken, known = lost(evaluator) or disordered(evaluator), positions(sinks, evaluator.store)
        lose_newest(evaluator, known)
        if evaluator.engine.suspended.lost_turns or evaluator.engine.suspended.lost_ids:
            use_up_unknown(evaluator, known)
        if is_broken:
            evaluator.store.journal.give_up(evaluator.store.journal.last_turn)
        evaluator.checkpoint(full=True)
        engine = evaluator.engine
        found: dict[str, Any] = {name: each.status for name, each in engine.standing.items()}
        return found | dict.fromkeys(engine.suspended, "suspended")
