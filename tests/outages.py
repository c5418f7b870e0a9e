"""Runs of a random app that stands still for a while, and is edited before it goes on.

The clock leaps while no process runs, as it does over a night. Meanwhile functions are mended, queries are replaced,
disposed of and declared again. The app that never stopped does the same in the order which a start promises: edits,
then what came due, then what is new. `outage_kinds.py` has apps of which other things are edited, at other times.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any
from unittest import mock

from random_apps import IDLE_S, NAMES, Declared, app
from random_runs import EVENTS, LIMITS, Run

from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.engine.engine import QueryEngine
from hosting.evaluator import checkpointer
from hosting.evaluator.creating import edits_first
from hosting.evaluator.following import handed_on, left_behind
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
DELAYS_S = (0.0, 1.5, 20.0, 0.0, 3.5)
CHANGES = ("mended", "mended", "replaced", "as it was")
CALLS = ("", "", "restart", "dispose")
"""What a command does on the stopped store, and what the app does as soon as it has started."""


class Outages(Run):
    """One app with outages: *how* its processes end, or nothing for an app that never stopped."""

    is_alike, idle_s = True, IDLE_S
    edits_at_stop = False
    """Whether the app that never stopped is edited before the clock leaps, and not behind that."""

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
        for name, change in changed.items():
            mended, is_other = was[name]
            if change != "as it was":
                self.changes[name] = (mended + 1, is_other) if change == "mended" else (mended, not is_other)
        edited = {name for name in NAMES if self.changes[name] != was[name] and name not in away}
        if self.edits_at_stop and not how and not command:
            self.edit_running(edited)
        self.now += leap_s / 2
        if command and commanded not in away and not (command == "restart" and self.is_left_to_the_app(commanded)):
            self.command(command, commanded, is_running=not how, is_killed=ends.random() < 0.5)
            edited -= {commanded} if command == "dispose" else set()
        if self.edits_at_stop and not how and command:
            before = self.emitted(), self.waiting()
            self.edit_running(edited)  # what this emits, also to a part that waits, counts from before the command
            self.is_alike = self.is_alike and (self.emitted(), self.waiting()) == before
        self.now += leap_s / 2
        if not how:
            self.go_on(edited)
        else:
            let_come = self.start(ends)
            self.is_alike = self.is_alike and not (act and let_come)  # before the app had its say
        if act:
            call(self.evaluator, act, called)
            self.settle()
        if act == "dispose":
            self.create(self.evaluator, called)
        self.settle()

    def is_left_to_the_app(self, name: str) -> bool:
        """Whether *name* or one that may run again with it is on event time: a clock that has ended is not stored."""
        with_it, failed = {name}, handed_on(self.evaluator.engine, self.evaluator.engine.standing)
        for _ in NAMES:
            with_it |= {each for each, origin in failed.items() if query_of(origin) in with_it}
        return any(self.declared(each).clock is not None for each in with_it)

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

    def start(self, ends: random.Random) -> bool:
        """Start the app, and again where that process ends at once; return whether that one let come what was due."""
        self.evaluator = self.opened()
        again, due = ends.choice(AGAIN), self.evaluator.engine.timers.next_due()
        steps = ends.randrange(4) if again == "killed behind steps" else 0
        if again:
            for _ in range(steps):
                self.evaluator.step()
            self.end(again)
            self.evaluator = self.opened()
        return steps > 0 and due is not None and due <= self.now

    def end(self, how: str) -> None:
        if how == "full checkpoint":
            self.evaluator.checkpoint(full=True)
        if how not in ("killed at once", "stopped"):
            self.evaluator.flush()
        self.evaluator.__exit__(None, None, None) if how == "stopped" else self.evaluator.abandon()
        self.store = self.store.reopen()

    def edit_running(self, changed: set[str]) -> list[str]:
        """Edit those of *changed* that run, as a start does; return who is left."""
        first, rest = edits_first(NAMES, self.reads(), changed & self.running())
        with self.following_later():
            for name in first:
                self.create(self.evaluator, name)
        return rest

    def go_on(self, changed: set[str]) -> None:
        """Do in a process that never stopped what a start does."""
        standing, running = self.evaluator.engine.standing, self.running()
        rest = self.edit_running(changed)
        with self.following_later():
            for name in rest:
                if name not in running:
                    self.settle()
                self.create(self.evaluator, name)
            if left_behind(self.evaluator.engine, standing, standing):
                self.settle()
        self.evaluator.following.follow()

    def emitted(self) -> list[int]:
        return [self.evaluator.engine.emitted(name) for name in NAMES]

    def waiting(self) -> list[float]:
        return sorted(timer[0] for timer in self.evaluator.engine.timers.heap if timer[2] is not None)

    def running(self) -> set[str]:
        standing = self.evaluator.engine.standing
        return {name for name in NAMES if name in standing and standing[name].status == "running"}

    def following_later(self) -> Any:
        """Have who is left behind run again at the end of a start."""
        return mock.patch.multiple(self.evaluator.following, follow=lambda: None, follow_late=lambda: False)

    def reads(self) -> dict[str, frozenset[str]]:
        """Return which streams each of the declared queries reads."""
        with closing(self.bare(MemoryStore())) as evaluator:
            for name in NAMES:
                self.create(evaluator, name)
            return dict(evaluator.engine.readers.declared)


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
    with mock.patch.object(checkpointer, "SLICE_ROWS", 1 + seed % 2 * 127):  # what shares a slice shares its objects
        run = kind(seed, clocked=clocked, of=of)
        run.play(how)
    found = run.found()
    run.evaluator.close()
    return found, run.is_alike
