"""Runs of a random app that stands still for a while, and is edited before it goes on.

The clock leaps while no process runs, as it does over a night. Meanwhile functions are mended, queries are replaced,
disposed of and declared again. The app that never stopped does the same in the order which a start promises: edits,
then what came due, then what is new.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any
from unittest import mock

from other_pythons import Pythons, played_pythons
from random_apps import IDLE_S, NAMES, Declared, app, num
from random_runs import EVENTS, LIMITS, Run

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.engine.engine import QueryEngine
from hosting.engine.event_time.validation import selects
from hosting.evaluator.creating import edits_first
from hosting.evaluator.following import left_behind
from reliable_rx import operators as ops
from reliable_rx.errors import QueryRefused
from reliable_rx.names import query_of

OUTAGES_S = (1.5, 4.0, 30.0)
"""Within what a timer of an app waits, and beyond all of them."""
ENDS = ("stopped", "flushed", "full checkpoint")
AGAIN = ("", "", "killed at once", "killed", "killed behind steps", "stopped")
"""How the process ends that has just been started."""
BETWEEN_S = (1.7321, 4.2426, 30.1357)
"""The same, at no time at which anything is due."""
STEP_S = 0.3
DELAYS_S = (0.0, 1.5, 20.0, 0.0, 3.5)
CHANGES = ("mended", "mended", "replaced", "as it was")
TICK_S = 0.77
TIMES_S = (4.0, 1.3, 11.0, 2.6, 25.0)
TIMED: list[Callable[[float], Any]] = [
    lambda time_s: ops.distinct(num, ttl_s=time_s),
    ops.take_with_time,
    ops.skip_with_time,
    ops.buffer_with_inactivity,
    lambda time_s: (
        lambda source: source.pipe(
            ops.group_by(lambda v: num(v) % 3, ttl_s=time_s), ops.flat_map(lambda group: group.pipe(ops.count()))
        )
    ),
    ops.buffer_with_time,
    ops.debounce,
    ops.throttle_first,
    ops.skip_last_with_time,
]
"""By time, operators that an edit gives another one."""
LATENESS = (1.0, 2.5, 0.5)
"""How much more, or less, lateness an edit gives a clock."""
CALLS = ("", "", "restart", "dispose")
"""What a command does on the stopped store, and what the app does as soon as it has started."""


class Outages(Run):
    """One app with outages: *how* its processes end, or nothing for an app that never stopped."""

    is_alike, idle_s = True, IDLE_S

    def __init__(self, seed: int, *, clocked: bool, of: Callable[..., dict[str, Declared]] = app) -> None:
        self.app = of
        self.changes: dict[str, tuple[int, bool]] = dict.fromkeys(NAMES, (0, False))
        """By query, how often it was mended, and whether it is another one."""
        super().__init__(seed, clocked=clocked)
        self.settle()

    def declared(self, name: str) -> Declared:
        mended, is_other = self.changes[name]
        queries = self.app(self.seed, clocked=self.clocked, edited=is_other, mended=mended, idle_s=self.idle_s)
        query, policy, clock = queries[name]
        delay_s = DELAYS_S[(self.seed + NAMES.index(name)) % len(DELAYS_S)]
        waiting = [ops.delay(delay_s)] * (delay_s > 0.0)
        return Declared(query.pipe(*waiting, ops.map(lambda value: (mended, value))), policy, clock)

    def create(self, evaluator: QueryEvaluator, name: str) -> None:
        query, policy, clock = self.declared(name)
        evaluator.create(name, query, policy=policy, clock=clock, limits=LIMITS)

    def settle(self) -> None:
        super().settle()
        check_alarms(self.evaluator.engine)

    def play(self, how: str) -> None:
        draw, acts, ends = random.Random(self.seed * 7 + 1), random.Random(self.seed + 1), random.Random(self.seed)
        for number in range(EVENTS):
            self.now += 1.0
            values, value = self.lists[draw.choice("nnm")], draw.randint(0, 30) + number * 2
            values += [value, *((value * 7 + each * 3) % 60 for each in range(value % 4))]
            self.settle()
            if acts.random() < 0.4:
                self.pass_over(acts, ends, how)
        self.evaluator.flush()

    def pass_over(self, acts: random.Random, ends: random.Random, how: str) -> None:
        """Stand still for a while, and go on with queries that were changed meanwhile."""
        away = acts.sample(NAMES, acts.choice([0, 0, 1, 2]))
        for name in away:
            self.evaluator.dispose(name)
        self.settle()
        changed = {name: acts.choice(CHANGES) for name in acts.sample(NAMES, acts.choice([1, 2, 3, 5]))}
        command, commanded, act, called = acts.choice(CALLS), acts.choice(NAMES), acts.choice(CALLS), acts.choice(NAMES)
        leap_s, was = acts.choice(BETWEEN_S if act else OUTAGES_S), {name: self.changes[name] for name in NAMES}
        if how:
            self.end(how if how in ENDS else ends.choice(ENDS))
        self.now += leap_s / 2
        is_clocked = self.declared(commanded).clock is not None  # of which nothing is stored once it has ended
        if command and commanded not in away and not (command == "restart" and is_clocked):
            self.command(command, commanded, is_running=not how, is_killed=ends.random() < 0.5)
            away += [commanded] * (command == "dispose")
        self.now += leap_s / 2
        for name, change in changed.items():
            mended, is_other = was[name]
            if change != "as it was":
                self.changes[name] = (mended + 1, is_other) if change == "mended" else (mended, not is_other)
        if not how:
            self.go_on({name for name in NAMES if self.changes[name] != was[name] and name not in away})
        else:
            self.start(ends)
        if act:
            call(self.evaluator, act, called)
            self.settle()
        if act == "dispose":
            self.create(self.evaluator, called)
        self.settle()

    def command(self, command: str, name: str, *, is_running: bool, is_killed: bool) -> None:
        """Do what the command line does on a stopped store, with nothing declared but the sources."""
        if is_running:
            self.evaluator.lifecycle.mends = True
            call(self.evaluator, command, name)
            self.evaluator.lifecycle.mends = False
            return
        with closing(self.bare(self.store)) as evaluator:
            evaluator.lifecycle.mends = True
            evaluator.start()
            call(evaluator, command, name)
            if not is_killed:
                evaluator.checkpoint(full=True)
        self.store = self.store.reopen()

    def bare(self, store: MemoryStore) -> QueryEvaluator:
        """Return an evaluator with the sources alone."""
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9, clock=lambda: self.now)
        for name, values in self.lists.items():
            evaluator.source(name, ListSource(values, follow=True))
        return evaluator

    def start(self, ends: random.Random) -> None:
        """Start the app, and once more where that process ends at once."""
        self.evaluator = self.opened()
        again = ends.choice(AGAIN)
        if again:
            for _ in range(ends.randrange(4) if again == "killed behind steps" else 0):
                self.evaluator.step()
            self.end(again)
            self.evaluator = self.opened()

    def end(self, how: str) -> None:
        if how == "full checkpoint":
            self.evaluator.checkpoint(full=True)
        if how not in ("killed at once", "stopped"):
            self.evaluator.flush()
        self.evaluator.__exit__(None, None, None) if how == "stopped" else self.evaluator.abandon()
        self.store = self.store.reopen()

    def go_on(self, changed: set[str]) -> None:
        """Do in a process that never stopped what a start does."""
        standing = self.evaluator.engine.standing
        running = {name for name in NAMES if name in standing and standing[name].status == "running"}
        first, rest = edits_first(NAMES, self.reads(), changed & running)
        last = mock.patch.multiple(self.evaluator.following, follow=lambda: None, follow_late=lambda: False)
        with last:  # who is left behind runs again then
            for name in first:
                self.create(self.evaluator, name)
            for name in rest:
                if name not in running:
                    self.settle()
                self.create(self.evaluator, name)
            if left_behind(self.evaluator.engine, standing, standing):
                self.settle()
        self.evaluator.following.follow()

    def reads(self) -> dict[str, frozenset[str]]:
        """Return which streams each of the declared queries reads."""
        with closing(self.bare(MemoryStore())) as evaluator:
            for name in NAMES:
                self.create(evaluator, name)
            return dict(evaluator.engine.readers.declared)


class Pending(Outages):
    """One app that is edited, and whose queries end, while something is due: *apart*, while nothing is."""

    is_alike = True
    """Whether no query ran again, with one that it had failed with, between the edits and the end of another."""

    def pass_over(self, acts: random.Random, ends: random.Random, how: str) -> None:
        standing, mended = self.evaluator.engine.standing, acts.sample(NAMES, acts.choice([0, 1, 2]))
        names = [name for name in NAMES if name in mended and standing[name].status == "running"]
        act, called = acts.choice(CALLS), acts.choice(NAMES)
        runs = standing[called].status == "running"  # the end of one that has ended lets nothing come
        if how == "apart":
            self.mend(names)
        self.now += acts.choice(BETWEEN_S)
        if how == "apart":
            began = {name: standing[name].born for name in NAMES}
            self.settle()
            self.is_alike = self.is_alike and began == {name: standing[name].born for name in began}
        else:
            self.mend(names)
        if act and runs and self.is_known(called):
            call(self.evaluator, act, called)
            self.settle()
            if act == "dispose":
                self.create(self.evaluator, called)
        self.settle()

    def is_known(self, name: str) -> bool:
        """Whether it is known who reads *name*: a selector may name it by what is due."""
        reads, beside = self.reads(), {name}
        for _ in NAMES:
            found = [{each, *map(query_of, reads[each])} for each in NAMES]
            beside |= {each for names in found if names & beside for each in names if each in NAMES}
        plans = [self.evaluator.engine.standing[other].plan for other in NAMES if other not in beside]
        return not any(selects(node) for plan in plans for node in plan.walk())

    def mend(self, names: list[str]) -> None:
        for name in names:
            mended, is_other = self.changes[name]
            self.changes[name] = (mended + 1, is_other)
            self.create(self.evaluator, name)


class Silent(Pending):
    """The same, with partitions that are idle after a while: when, also a pause of the host has a say in."""

    idle_s = 3.0


class Timed(Outages):
    """One app of which times are edited, too: two in each query."""

    def declared(self, name: str) -> Declared:
        query, policy, clock = super().declared(name)
        times, place = self.changes[name][0], self.seed + NAMES.index(name)
        first, second = (TIMED[number % len(TIMED)] for number in (place, place * 7 + 3))
        first_s, second_s = (TIMES_S[number % len(TIMES_S)] for number in (times, times + 2))
        at_s = ops.map(lambda told: (num(told.value), told.timestamp.timestamp()))
        timed = [ops.map(lambda value: num(value) % 5), first(first_s), ops.map(lambda value: num(value) % 3)]
        return Declared(query.pipe(*timed, second(second_s), ops.timestamp(), at_s), policy, clock)


class Beside(Timed):
    """The same, with a query beside it that ticks: something is due whatever happens."""

    def create(self, evaluator: QueryEvaluator, name: str) -> None:
        if name == NAMES[0]:
            evaluator.create("beside", rx.interval(TICK_S))
        super().create(evaluator, name)


class AtStop(Timed):
    """One app that is edited when it stops; or with the start, behind a stop of which the time is known, or a kill."""

    def edit(self, name: str, names: list[str]) -> None:
        self.create(self.evaluator, name)

    def pass_over(self, acts: random.Random, ends: random.Random, how: str) -> None:
        standing, mended = self.evaluator.engine.standing, acts.sample(NAMES, acts.choice([1, 2, 3]))
        names = [name for name in NAMES if name in mended and standing[name].status == "running"]
        if how:
            self.end(how if how in ENDS else ends.choice(ENDS))
        for name in names:
            times, is_other = self.changes[name]
            self.changes[name] = (times + 1, is_other)
            if not how:
                self.edit(name, names)
        self.now += acts.choice(BETWEEN_S)
        if how:
            self.start(ends)
        self.settle()


class ByAnotherPython(AtStop):
    """The same, whose processes are of another Python each; functions in a state stay behind.

    All queries go over before one emits: what the edit of one lets come meets no other as it was before.
    """

    pythons: Pythons

    def declared(self, name: str) -> Declared:
        query, policy, clock = super().declared(name)
        times = self.changes[name][0]
        return Declared(query, policy, clock and replace(clock, lateness_s=clock.lateness_s * LATENESS[times % 3]))

    def play(self, how: str) -> None:
        with played_pythons() as self.pythons:
            super().play(how)

    def edit(self, name: str, names: list[str]) -> None:
        emitted = self.evaluator.engine.emitted(name)
        super().edit(name, names)
        reads, hear, standing = self.reads(), {name}, self.evaluator.engine.standing
        for each in NAMES:
            may_read = any(map(selects, standing[each].plan.walk())) or hear & {*map(query_of, reads[each])}
            hear |= {each} if may_read else set()
        is_heard = emitted != self.evaluator.engine.emitted(name) and not {*names, name}.isdisjoint(hear - {name})
        self.is_alike = self.is_alike and not is_heard

    def start(self, ends: random.Random) -> None:
        self.pythons.change()
        self.evaluator = self.opened()
        reports = self.evaluator.statistics().reports.values()
        self.is_alike = self.is_alike and not any("holds code" in each for each in reports)


class Twice(Timed):
    """One app that is edited twice while something is due, with the end of a process in between, or not.

    Nobody begins anew in between.
    """

    def pass_over(self, acts: random.Random, ends: random.Random, how: str) -> None:
        first, second = (acts.sample(NAMES, acts.choice([1, 2, 3])) for _ in range(2))
        end = ends.choice(["stopped", "killed at once", "full checkpoint"]) if how else ""
        stops = acts.random() < 0.5
        if stops:
            self.end("stopped")
        self.now += acts.choice(BETWEEN_S)
        if stops:
            self.evaluator = self.opened()
        if self.all_run():
            self.mend(first)
            self.now += 1.0 * stops  # else what a process edits counts from when it does
            if self.all_run():
                self.mend(second, end)
        self.settle()

    def all_run(self) -> bool:
        return all(each.status == "running" for each in self.evaluator.engine.standing.values())

    def mend(self, names: list[str], end: str = "") -> None:
        """Edit *names*, in the order in which they are declared; or have the next process do so, behind this *end*."""
        for name in [name for name in NAMES if name in names]:
            mended, is_other = self.changes[name]
            self.changes[name] = (mended + 1, is_other)
            if not end:
                self.create(self.evaluator, name)
        if end:
            self.end(end)
            self.evaluator = self.opened()


class Leaps(Outages):
    """One app that is not looked after for a while: then the clock goes on at once, or *in steps*."""

    def pass_over(self, acts: random.Random, ends: random.Random, how: str) -> None:
        until = self.now + acts.choice(BETWEEN_S)
        while how == "in steps" and self.now + STEP_S < until:
            self.now += STEP_S
            self.settle()
        self.now = until
        self.settle()


def check_alarms(engine: QueryEngine) -> None:
    """Check that each clock will look again where silence may let it go on."""
    for mark in engine.watermarks.by_name.values():
        waiting = [each for each in mark.marks.values() if not each.ended and each.high < mark.highest]
        if any(engine.clock < each.seen + mark.spec.idle_s for each in waiting) and not mark.is_over:
            assert mark.alarm is not None and mark.alarm[2] is not None, (mark.sources, mark.marks)


def call(evaluator: QueryEvaluator, method: str, name: str) -> None:
    """Restart *name* unless what it reads is not there, or dispose of it."""
    with suppress(QueryRefused):
        getattr(evaluator, method)(name)


def played(
    seed: int, clocked: bool, how: str, kind: type[Outages] = Outages, of: Callable[..., dict[str, Declared]] = app
) -> tuple[dict[str, Any], bool]:
    """Return what the streams of an app hold in the end, and whether that can be compared."""
    run = kind(seed, clocked=clocked, of=of)
    run.play(how)
    found = run.found()
    run.evaluator.close()
    return found, run.is_alike
