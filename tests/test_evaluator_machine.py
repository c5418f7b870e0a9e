"""A state machine over the evaluator: whatever happens in whatever order, nothing is lost, doubled or out of order."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from evaluator_world import HOSTILE, POINTS, RETAINED_MAX, STATIC, World, full_at, query_of
from hostile_world import hostile_queries
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from lanes import share_of

import reliable_rx as rx
from hosting.evaluator import checkpointer
from reliable_rx.errors import QueryRefused
from reliable_rx.failpoints import ARMED
from reliable_rx.testing.faults import nth
from reliable_rx.testing.recipes import recipes

SLICE_ROWS = checkpointer.SLICE_ROWS
VALUES = st.lists(st.integers(0, 6), min_size=1, max_size=5)
NAMES = st.sampled_from(("one", "two", "three"))
RECIPES = recipes(sources=3, steps_max=4)
POLICIES = st.sampled_from(("fail", "skip", "dead_letter"))
STEPS = st.integers(1, 8)
LIVES = st.lists(st.tuples(st.sampled_from(POINTS), VALUES, STEPS), max_size=6, unique_by=lambda life: life[0])


class Machine(RuleBasedStateMachine):
    """Everything that may happen to an evaluator and the process around it."""

    world: World

    @initialize(
        batch=st.sampled_from((1, 3, 100)), retain=st.sampled_from((RETAINED_MAX, 2)), rows=st.sampled_from((1, 128)),
        lives=LIVES,
    )  # fmt: skip
    def begin(self, batch: int, retain: int, rows: int, lives: list[tuple[str, list[int], int]]) -> None:
        """Have some lives first that end badly, each at another point: of the rules Hypothesis may draw any as good as
        never, and most of its examples differ little from one before.
        """
        ARMED.clear()
        checkpointer.SLICE_ROWS = rows
        self.world = World(self.folder(), batch_events_max=batch, retain_events=retain)
        self.world.start()
        for life in lives:
            self.fail_and_crash(*life)

    def folder(self) -> Path | None:
        """Return where the store lies; None: in memory."""
        return None

    @rule(values=VALUES)
    def push(self, values: list[int]) -> None:
        self.world.push(values)

    @rule(values=VALUES)
    def append(self, values: list[int]) -> None:
        self.world.listed += values

    @rule(steps=st.integers(1, 6))
    def step(self, steps: int) -> None:
        self.world.run(steps)

    @rule()
    def settle(self) -> None:
        self.world.run(200)

    @rule(seconds=st.sampled_from((0.5, 2.0, 7.0)))
    def tick(self, seconds: float) -> None:
        self.world.now += seconds

    @rule(name=NAMES, recipe=RECIPES, policy=POLICIES)
    def create_or_edit(self, name: str, recipe: Any, policy: str) -> None:
        try:
            self.world.try_to(lambda: self.world.evaluator.create(name, query_of(recipe), policy=policy))
        except QueryRefused as refused:  # a zip of branches, which nothing may be skipped of
            assert policy != "fail" and "by position" in str(refused)

    @rule(build=hostile_queries(), policy=POLICIES)
    def host_something_hostile(self, build: Any, policy: str) -> None:
        """Host a query beside the others of which nobody knows what it does, or edit it into another."""
        with suppress(QueryRefused):  # a generator function, say
            self.world.try_to(lambda: self.world.evaluator.create(HOSTILE, build(rx.source("pushed")), policy=policy))

    @rule()
    def dispose_of_what_is_hostile(self) -> None:
        if HOSTILE in self.world.evaluator.queries():
            self.world.try_to(lambda: self.world.evaluator.dispose(HOSTILE))

    @rule(name=NAMES)
    def dispose(self, name: str) -> None:
        if name in self.world.evaluator.queries():
            self.world.try_to(lambda: self.world.evaluator.dispose(name))

    @rule(name=st.sampled_from(sorted(set(STATIC) - {"totals"})))
    def dispose_and_declare_again(self, name: str) -> None:
        query, policy = STATIC[name]
        if name in self.world.evaluator.queries():
            self.world.try_to(lambda: self.world.evaluator.dispose(name))
        self.world.try_to(lambda: self.world.evaluator.create(name, query, policy=policy))

    @rule(full=st.booleans())
    def checkpoint(self, full: bool) -> None:
        self.world.try_to(lambda: self.world.evaluator.checkpoint(full=full))

    @rule()
    def begin_checkpoint(self) -> None:
        """Let a checkpoint be under way while other things happen."""
        checkpointer = self.world.evaluator.checkpointer
        if checkpointer.attempt is None and checkpointer.trouble is None:
            checkpointer._begin(full=checkpointer._wants_full())

    @rule(values=VALUES, steps=st.integers(1, 6))
    def checkpoint_under_load(self, values: list[int], steps: int) -> None:
        """Let events come while a checkpoint is written, and the process die before the next."""
        self.begin_checkpoint()
        for value in values:
            self.world.push([value])
            self.world.listed.append(value)
            self.world.run(1)
        self.world.run(steps)
        self.world.crash()

    @rule(point=st.sampled_from(POINTS), once=st.booleans())
    def let_it_fail(self, point: str, once: bool) -> None:
        ARMED[point] = nth(1, full_at(point)) if once else full_at(point)

    @precondition(lambda self: bool(ARMED))
    @rule()
    def mend(self) -> None:
        ARMED.clear()

    @rule(point=st.sampled_from(POINTS), values=VALUES, steps=STEPS)
    def fail_and_crash(self, point: str, values: list[int], steps: int) -> None:
        """Let events come, the disk be full at one point, a checkpoint be tried, and the process die."""
        self.world.push(values)
        self.world.listed += values
        ARMED[point] = full_at(point)
        self.world.run(steps)
        self.checkpoint(full=False)
        self.world.crash()

    @rule()
    def crash(self) -> None:
        self.world.crash()

    @rule()
    def restart_in_peace(self) -> None:
        ARMED.clear()
        self.world.evaluator.close()
        self.world.observe()
        self.world.reopen()

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                self.world.finish()
        finally:
            checkpointer.SLICE_ROWS = SLICE_ROWS
            ARMED.clear()
            if hasattr(self, "world"):
                self.world.store.close()


class OnDisk(Machine):
    """The same over real SQLite."""

    def folder(self) -> Path:
        self.directory = tempfile.TemporaryDirectory()
        return Path(self.directory.name)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.directory.cleanup()


def run(examples: int, steps: int, machine: type[Machine] = Machine) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_ledger_is_clean_whatever_happens() -> None:
    """Create, edit, dispose, feed, tick, checkpoint, fail, crash, recover: 0 lost, 0 duplicated, 0 reordered."""
    run(examples=share_of(60), steps=30)


def test_the_ledger_is_clean_on_disk() -> None:
    """The same with a store of SQLite files."""
    run(examples=share_of(4), steps=15, machine=OnDisk)


@pytest.mark.slow
def test_the_ledger_is_clean_on_disk_for_long() -> None:
    """The same, more often."""
    run(examples=100, steps=40, machine=OnDisk)


@pytest.mark.slow
def test_the_ledger_is_clean_whatever_happens_for_long() -> None:
    """The same, for longer and more often."""
    run(examples=300, steps=60)
