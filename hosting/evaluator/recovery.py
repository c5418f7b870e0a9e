"""Coming back: the newest checkpoint, then the journalled turns once more, then live.

The same turns over the same events give the same outputs under the same ids, so whoever has some of them already drops
them by id. What differs is reported (or, strictly, refused), never silently accepted. Partitions that a source did not
have before appear behind the replay, as a turn of their own.
"""

from __future__ import annotations

import math
import time as wall
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from checkpoint.format.by_value import goes_by_value
from checkpoint.format.code import OtherCode
from checkpoint.format.codec import decode
from checkpoint.store import Recovered
from hosting.edges.partition_replay import replay_events, replay_rejects
from hosting.edges.renamed import renamed_partitions, renamed_sources
from hosting.edges.sinks_ahead import had_by
from hosting.engine import unloadable
from hosting.engine.snapshot import load
from hosting.engine.turns import Appear, Create, Output, Turn
from hosting.evaluator import group_commit as journaling
from hosting.evaluator.gc_pause import no_collections
from hosting.evaluator.late_ends import LateEnds
from hosting.evaluator.undeclared import check_stored_names, tell_undeclared, undeclared
from hosting.evaluator.unloaded import fill
from hosting.repair import lost
from hosting.reports.partition_store import RESTORE_GROUP
from hosting.reports.statistics import RecoveryFigures
from hosting.reports.store_commands import command_on, is_partition
from reliable_rx.errors import CheckpointRefused, PositionUnavailable, invariant
from reliable_rx.functions.by_name import by_name
from reliable_rx.interrupts import let_through
from reliable_rx.names import query_of

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine
    from hosting.evaluator.evaluator import QueryEvaluator


def recover(evaluator: QueryEvaluator) -> RecoveryFigures:
    """Bring *evaluator* to where it was, and say what that took."""
    evaluator.reporter.status.starting()
    with no_collections():
        figures = _recover(evaluator)
        if (
            evaluator.definitions.positions.passed_over
        ):  # what positions mean from now on is stored before the first turn
            evaluator.outlets.open()
            evaluator.checkpointer.now(full=True)
    return figures


def read_by_queries(evaluator: QueryEvaluator) -> set[str]:
    """Return what the queries read that are declared and go on."""
    return evaluator.engine.readers.sources_of(evaluator.engine.standing)


def _recover(evaluator: QueryEvaluator) -> RecoveryFigures:
    began = wall.perf_counter()
    evaluator.creation.declare_again()
    recovered = newest(evaluator)
    meta: dict[str, Any] = {"positions": {}, "ended": set(), "holders": {}, "sinks": {}}
    generation = turn = 0
    fallbacks: tuple[str, ...] = ()
    withhold_sources(evaluator)
    if recovered is not None:
        meta = decode(recovered.meta)
        generation, turn, fallbacks = recovered.generation, recovered.turn, recovered.fallbacks
        load_checkpoint(evaluator, recovered, meta)
    evaluator.warnings.extend(fallbacks)
    open_edges(evaluator, meta)
    journal = evaluator.store.journal
    if journal.last_turn < turn:
        (journal.give_up if evaluator.passes_over else journal.truncate)(turn)
    evaluator.engine.replaying = True
    if journal.last_turn > turn:
        before_replay(evaluator)
    turns, events = replay_all(evaluator, turn)
    go_live(evaluator, meta, events)
    return RecoveryFigures(generation, turns, events, wall.perf_counter() - began, fallbacks)


def open_edges(evaluator: QueryEvaluator, meta: dict[str, Any]) -> None:
    """Have streams, sinks and sources stand where the checkpoint has them."""
    for name, stream in evaluator.streams.items():
        stream.recovered(evaluator.store, evaluator.engine.emitted(name))
    with or_repair(evaluator):
        evaluator.outlets.hold(meta["holders"], meta["sinks"])
    evaluator.definitions.recovered(meta)
    with or_repair(evaluator, begins=True):
        evaluator.intake.open(meta["positions"], meta["ended"], evaluator.wake, evaluator.engine.end_of)
    evaluator.engine.awaited = evaluator.intake.awaited(meta["positions"])
    evaluator.warnings.extend(renamed_sources(evaluator.intake, meta["positions"], read=read_by_queries(evaluator)))


def go_live(evaluator: QueryEvaluator, meta: dict[str, Any], events: int) -> None:
    """Behind a replay of so many *events*: settle what it has left open, and take in what has appeared since."""
    undecided = evaluator.engine.awaited - evaluator.intake.awaited(evaluator.intake.positions())
    evaluator.engine.awaited |= evaluator.intake.appearing()
    for source in evaluator.intake.sources:
        evaluator.engine.declare(source, ())
    evaluator.checkpointer.replayed(events)
    evaluator.reporter.replayed()
    evaluator.engine.replaying = False
    evaluator.streams.events_out = 0  # those of a replay are of the run before
    if not evaluator.intake.event_time:
        evaluator.time.read(evaluator.engine.reached)
    evaluator.standstill.ran_until = ran_until(evaluator.engine, meta)
    evaluator.engine.plans.stored = {}
    evaluator.calls.recovered()
    evaluator.growth.begin(meta.get("extents", {}), evaluator.intake.partitions.values())
    evaluator.streams.retired.recovered(evaluator.engine)
    evaluator.interpreters.settle()
    tell_undeclared(undeclared(evaluator.engine.standing, evaluator.declared), evaluator.store)
    if evaluator.unloaded.settle():
        evaluator.checkpointer.since_full = None  # the rows that could not be read are in the chain until then
    evaluator.outlets.had = had_by(evaluator.engine, evaluator.intake)
    evaluator.late.decide(sorted(undecided))
    evaluator.intake.bad_records.recovered(meta.get("bad_records", {}), evaluator.intake.partitions.values())
    evaluator.warnings.extend(renamed_partitions(evaluator.intake, meta.get("told_gone", ())))
    with or_repair(evaluator, begins=True):  # a pushed input may begin behind 0, where all that has read it is lost
        for appeared in evaluator.intake.appeared():
            evaluator.turns.take(appeared)


def ran_until(engine: QueryEngine, meta: dict[str, Any]) -> float:
    """Return until when the process before is known to have run."""
    known: float = meta.get("time", 0.0)
    return known if engine.stop is not None else max(engine.clock, engine.reached, known)


def load_checkpoint(evaluator: QueryEvaluator, recovered: Recovered, meta: dict[str, Any]) -> None:
    """Put what a checkpoint has into a fresh engine, which then knows the sources that it has known."""
    engine = evaluator.engine
    reached = -math.inf if evaluator.intake.event_time else meta["engine"]["clock"]
    evaluator.time.go_on(reached, ahead_s=meta.get("ahead_s", 0.0))
    load(engine, recovered.chunks, meta["engine"], ran_until=meta.get("time", 0.0), now=evaluator.turns.now())
    evaluator.intake.starts.beginning -= meta["engine"]["live"].keys()
    evaluator.interpreters.texts.stored = meta.get("texts", {})
    if evaluator.passes_over != "all":
        evaluator.interpreters.check_clean(recovered.turn)
    evaluator.redefinitions.classes.recovered(meta.get("classes", {}))
    if engine.suspended.spoilt:
        unloadable.blame_classes(engine, evaluator.redefinitions.classes.changed())
    evaluator.unloaded.check_names()
    evaluator.turns.durable_plans = set(engine.plans.by_id) - set(engine.plans.unsaved)
    evaluator.checkpointer.recovered(recovered.generation, recovered.turn, meta)


def withhold_sources(evaluator: QueryEvaluator) -> None:
    """Have what is loaded and replayed know nothing of the sources of today until they are there, too.

    The name of one may be that of a query in the turns that come.
    """
    for name in {source for source, _ in evaluator.intake.partitions}:
        evaluator.engine.live.pop(name, None)


def before_replay(evaluator: QueryEvaluator) -> None:
    """Look at what came out of the checkpoint for what makes a replay give something else."""
    unloadable.spread(evaluator.engine)
    evaluator.reporter.look_at_first()


def newest(evaluator: QueryEvaluator) -> Recovered | None:
    """Read the newest checkpoint. *Raises* `CheckpointRefused`, with the remedy if an older one may do."""
    try:
        return evaluator.store.recover(strict=evaluator.strict)
    except CheckpointRefused as error:
        if evaluator.passes_over:
            evaluator.store.begin_anew()
            return None
        of_group = is_partition(evaluator.store)
        if not evaluator.strict and not of_group:
            raise
        command = command_on(evaluator.store, "store repair", "--app", "MODULE:APP")
        way = "strict=False (App(strict=False))" if command is None else f"`{command}`"
        older = f", or go on from an older checkpoint with {way}" if evaluator.strict else ""
        message = f"{error.message}; {RESTORE_GROUP if of_group else 'bring back a copy of the store'}{older}"
        raise CheckpointRefused(message, **error.fields) from error


@contextmanager
def or_repair(evaluator: QueryEvaluator, *, begins: bool = False) -> Iterator[None]:
    """Name the repair in a refusal that it helps against; of where sources *begin*, it puts only pushed ones right.

    It does not help against the loss of turns of a partition.
    """
    try:
        yield
    except (CheckpointRefused, PositionUnavailable) as error:
        command = command_on(evaluator.store, "store repair", "--app", "MODULE:APP")
        if "`reliable-rx store repair" in error.message or (begins and "pushed" not in error.fields):
            raise
        if is_partition(evaluator.store):
            way = RESTORE_GROUP
        elif command is None:
            raise
        else:
            way = f"restore a copy of the store, or see what can be saved with `{command}`"
        raise type(error)(f"{error.message}; {way}", **error.fields) from error


def replay_all(evaluator: QueryEvaluator, after_turn: int) -> tuple[int, int]:
    """Take the turns again that are not to be passed over; return how many, and how many events they held."""
    turns = events = 0
    if evaluator.passes_over != "all":
        upto = lost.before_gap(evaluator.store.journal, after_turn) if evaluator.passes_over else None
        with evaluator.interpreters.explained(after_turn), or_repair(evaluator):
            turns, events = replay(evaluator, after_turn, upto)
    if evaluator.passes_over:
        evaluator.warnings.extend(lost.pass_over(evaluator, after_turn + turns))
    if evaluator.declared or evaluator.outlets.are_told:  # not sooner: one of these turns may have freed a name
        check_stored_names(evaluator.engine, evaluator.intake, evaluator.declared, evaluator.store)
    return turns, events


def replay(evaluator: QueryEvaluator, after_turn: int, upto: int | None = None) -> tuple[int, int]:
    """Take the turns of the journal behind *after_turn* again; return how many, and how many events they held."""
    turns = events = 0
    ends = LateEnds(evaluator.engine, evaluator.streams)
    for first, last, entries, digested, told in journaling.read(evaluator.store.journal, after_turn, upto):
        evaluator.definitions.check(told.definitions, entries, first, last)
        evaluator.redefinitions.classes.recovered(told.classes)
        emitted: list[Output] = []
        for entry in entries:
            events += entry[4] if entry[0] == "events" else 0
            emitted += take_again(evaluator, entry, ends)
        turns += last - first + 1
        invariant(
            evaluator.engine.number == last, f"the journal's turn {last} is the engine's {evaluator.engine.number}"
        )
        compare(evaluator, digested, emitted, ends, first, last)
    ends.put()
    for stream in evaluator.streams.values():
        stream.show(stream.next_id)
    return turns, events


def changed_code(evaluator: QueryEvaluator, queries: Sequence[str]) -> list[str]:
    """Name what *queries* reach by name only, if their code is not what it was, and classes of values that are not."""
    engine, found = evaluator.engine, set[str]()
    for name in queries:
        standing = engine.standing.get(query_of(name))
        if standing is not None and engine.plans.has_changed(standing.plan):
            query = standing.plan.query
            found |= by_name(query, functions=not goes_by_value(query))
    with evaluator.inside:
        return sorted(found.union(evaluator.redefinitions.classes.changed()))


def compare(
    evaluator: QueryEvaluator,
    written: journaling.Digests,
    emitted: list[Output],
    ends: LateEnds,
    first: int,
    last: int,
) -> None:
    """Compare what was replayed with the first run, and put it into streams; what differs is its query's problem."""
    engine, outputs = evaluator.engine, dict[str, list[Any]]()
    for out in emitted:
        journaling.note(outputs, out)
    differing = [each for each in journaling.compare(written, outputs) if not unloadable.is_silent(engine, each)]
    if differing:
        changed = changed_code(evaluator, differing)
        reads = engine.standing
        data = evaluator.definitions.read_by(differing, lambda name: reads[name].plan.sources if name in reads else ())
        told = evaluator.reporter.identity_keys.told
        how: dict[str, Any] = {
            "strict": evaluator.strict,
            "changed": changed,
            "sources": list(evaluator.definitions.passed_over),
            "data": data,
            "compared": {each: told[query_of(each)] for each in differing if query_of(each) in told},
        }
        if (changed or data) and evaluator.strict:  # nothing is written yet: with what was there nothing is lost
            raise journaling.nondeterminism(differing, first, last, **how)
        known = engine.suspended.differing
        if fresh := [name for name in differing if query_of(name) not in known]:
            evaluator.warnings.append(journaling.nondeterminism(fresh, first, last, **how).message)
        for name in fresh:  # each has its own error: none of them has it from another
            known.setdefault(query_of(name), journaling.nondeterminism([name], first, last, **how))
    short = [name for name in written if name in differing or unloadable.is_silent(engine, name)]
    ends.hold_back(emitted, differing)
    evaluator.streams.append(emitted)
    fill(engine, evaluator.streams, written, short, ended=ends.errors)


def take_again(evaluator: QueryEvaluator, entry: journaling.Entry, ends: LateEnds) -> list[Output]:
    with evaluator.inside:
        turn = turn_of(evaluator, entry)
    ends.put_before(turn)
    emitted = evaluator.engine.take(turn)
    if evaluator.engine.calls.unreadable:
        evaluator.unloaded.lose_answers()
    if type(turn) is Create and evaluator.engine.suspended.spoilt:
        unloadable.spread(evaluator.engine)
    return emitted


def check_has_appeared(evaluator: QueryEvaluator, source: str, partition: str) -> None:
    """*Raises* `CheckpointRefused` if no turn says that there was this partition: others are not known, either."""
    if (source, partition) in evaluator.intake.unknown:
        raise CheckpointRefused(
            f"the journal has turns of source {source!r}, partition {partition!r}, and does not say which partitions "
            f"there were: an older version has written it; start once with that one, and stop it in order",
            what="turns",
            where=source,
        )


def turn_of(evaluator: QueryEvaluator, entry: journaling.Entry) -> Turn:
    """Read a turn back, with its events from its source."""
    if entry[0] in ("events", "rejects"):
        check_has_appeared(evaluator, *entry[1:3])
    if entry[0] == "events":
        _, source, partition, first, count, time, ended, singly, *end = entry
        found = evaluator.intake.find(source, partition)
        return replay_events(found, first, count, time, ended=ended, singly=singly, end=end)
    if entry[0] == "rejects":
        _, source, partition, first, behind, count, time = entry
        return replay_rejects(evaluator.intake.find(source, partition), first, behind, count, time)
    if entry[0] == "create":
        _, name, identity, code, keys, policy, limits, time, clock = entry
        try:
            plan = evaluator.engine.plans.find(identity)
            if plan is None:
                plan = evaluator.engine.plans.compile_stored(identity, decode(code), limits)
            event_time = None if clock is None else decode(clock)
        except OtherCode:
            raise
        except BaseException as error:  # reading a query calls what its author wrote
            let_through(error)
            evaluator.engine.suspended.spoilt[name] = unloadable.unloadable(error)
            evaluator.unloaded.check_names()
            return Create(name, identity, unloadable.idle_plan(evaluator.engine), (), policy, limits, time)
        evaluator.turns.durable_plans.add(identity)
        return Create(name, identity, plan, keys, policy, limits, time, event_time)
    if entry[0] == "appear":
        evaluator.intake.begin(*entry[1:])
        return Appear(*entry[1:])
    return journaling.simple_turn(entry)
