"""Outages of other kinds: what is pending at an edit or an end, edited times, a stop that is edited, other Pythons.

Each is one app that is played in two ways which are to come to the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from other_pythons import Pythons, played_pythons
from outages import BETWEEN_S, CALLS, ENDS, Outages, call
from random_apps import NAMES, Declared, num

import reliable_rx as rx
from hosting import QueryEvaluator
from hosting.engine.event_time.validation import selects
from reliable_rx import operators as ops
from reliable_rx.names import query_of

STEP_S = 0.3
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


class EditedAtStop(Outages):
    """The same, whose edits in an app that never stopped count from before the leap, as what they end does at a start.

    What an edit brings counts from the start; so an app is alike with one of the two.
    """

    edits_at_stop = True


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
    """One app that is edited when it stops; or with the start, behind a stop of which the time is known, or a kill.

    Who fails with what an edit emits runs again at once, or at the end of the start, when more has come.
    """

    def edit(self, name: str, names: list[str]) -> None:
        running = self.running()
        self.create(self.evaluator, name)
        begun = {each.name for each in self.evaluator.engine.standing.values() if each.failure is None}
        self.is_alike = self.is_alike and running <= self.running() & begun

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

    def start(self, ends: random.Random) -> bool:
        self.pythons.change()
        self.evaluator = self.opened()
        reports = self.evaluator.statistics().reports.values()
        self.is_alike = self.is_alike and not any("holds code" in each for each in reports)
        return False


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
