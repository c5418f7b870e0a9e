"""Real kills, at every named point and at random, of Spark's driver and of evaluators: nothing lost, nothing twice.

A start of Spark costs some eight seconds, so few lives are in the usual lane, chosen so that every point, source, form
and set-up is among them. The whole product runs with ``RELIABLE_RX_SPARK_KILLS=all``.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from spark_kill_app import SOURCES, Flow
from spark_kill_world import SPANS, Kill, Side, World

from spark_bridge.log import names

WRITING = ("spark.part_written", "spark.before_manifest", "spark.after_manifest")
FORGETTING = ("spark.before_forget", "spark.forgetting")
COMPACTING = ("spark.after_span",)
IN_A_TURN = (
    "app.turn", "journal.before_commit", "journal.after_commit", "sink.before_flush", "sink.after_flush",
    "sink.before_acknowledge", "checkpoint.before_snapshot", "checkpoint.before_commit", "checkpoint.mid_commit",
    "checkpoint.after_commit", "checkpoint.before_truncate", "checkpoint.before_acknowledge",
)  # fmt: skip
BY_EVALUATOR: Side = "evaluator"


def case(flow: Flow, *, apart: bool) -> Any:
    name = f"{flow.source}-{flow.plan}-{flow.form}-{flow.partitions}-{'two' if apart else 'one'}"
    return pytest.param(flow, apart, id=name)


FLOWS = [
    *(case(Flow(source, "sink"), apart=False) for source in SOURCES),
    *(case(Flow(source, "sink", 2), apart=True) for source in SOURCES),
    *(case(Flow(source, "foreach_batch"), apart=True) for source in SOURCES),
    *(case(Flow(source, "foreach_batch", 2), apart=False) for source in SOURCES),
    case(Flow("files", "sink", plan="windows"), apart=True),
    case(Flow("files", "foreach_batch", plan="windows"), apart=False),
    case(Flow("files", "sink", plan="keyed"), apart=False),
]
"""Of form, partitions and set-up every two settings meet, for each source."""
ALL = os.environ.get("RELIABLE_RX_SPARK_KILLS") == "all"
pytestmark = pytest.mark.timeout(1800)


Begin = Callable[[Flow], World]


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    """Make the world of a flow; nothing of it is left running. Old batches are put together soon, here as there."""
    monkeypatch.setattr(names, "SPANS", SPANS)
    with contextlib.ExitStack() as worlds:

        def made(flow: Flow) -> World:
            world = World(tmp_path, flow)
            worlds.callback(world.close)
            return world

        yield made


def by_evaluator(*points: str) -> list[Kill]:
    return [Kill(point, side=BY_EVALUATOR) for point in points]


def test_two_processes_killed_one_by_one(begin: Begin) -> None:
    """A log is read and published by key: the driver dies as executors write, the evaluator in turns and forgetting."""
    world = begin(Flow("log", "sink", partitions=2))
    evaluator = world.start("evaluator")
    world.killed("driver", Kill("spark.part_written"), evaluator)
    evaluator.end()
    driver = world.start("driver")
    turns = by_evaluator("app.turn", "journal.after_commit", "checkpoint.before_acknowledge", "sink.after_flush")
    for kill in turns + by_evaluator(*FORGETTING, *COMPACTING, "spark.after_manifest"):
        world.killed("evaluator", kill, driver)
    driver.end()
    world.finish(apart=True)
    assert world.kills == 9


def test_one_process_killed_on_both_sides_of_a_manifest(begin: Begin) -> None:
    """Spark makes the rows up; foreachBatch dies before the manifest, and behind it while its JVM lives on."""
    world = begin(Flow("made", "foreach_batch"))
    world.killed("both", Kill("spark.before_manifest"))
    world.killed("both", Kill("spark.after_manifest", victim="self"))
    world.finish(apart=False)


def test_windows_killed_behind_a_manifest(begin: Begin) -> None:
    """A stateful batch that Spark has not written down as done runs again, and its checkpoint is fit for that."""
    world = begin(Flow("files", "sink", plan="windows"))
    world.killed("both", Kill("spark.after_manifest"))
    world.finish(apart=False)


@pytest.mark.skipif(not ALL, reason="the whole product of kills: RELIABLE_RX_SPARK_KILLS=all")
@pytest.mark.parametrize(("flow", "apart"), FLOWS)
def test_killed_at_every_point(flow: Flow, apart: bool, begin: Begin) -> None:
    """Spark's side dies at each of its points, with all its processes and alone; the evaluator's at each of its own."""
    world = begin(flow)
    driver = "driver" if apart else "both"
    reads = FORGETTING if flow.source == "log" else ()
    for nth, point in enumerate((*WRITING, *reads, *(COMPACTING if apart else ())), 1):
        world.killed(driver, Kill(point, nth))
    world.killed(driver, Kill(WRITING[world.lives % 3], victim="self"))
    forgets = FORGETTING if flow.width else FORGETTING[:1]
    kills = by_evaluator(*IN_A_TURN, *WRITING[1:], *forgets, *COMPACTING)
    if not apart:
        for kill in random.Random(str(flow)).sample(kills, 2):
            world.killed("both", kill)
    else:
        beside = world.start("driver")
        for kill in kills:
            world.killed("evaluator", kill, beside)
        beside.end()
    world.finish(apart=apart)


@pytest.mark.skipif(not ALL, reason="the whole product of kills: RELIABLE_RX_SPARK_KILLS=all")
@pytest.mark.parametrize("seed", range(8))
def test_killed_at_any_moment(seed: int, begin: Begin) -> None:
    """Everything, the driver alone, its JVM alone, a worker alone: six times at random moments, then in peace."""
    draw = random.Random(seed)
    flow, apart = draw.choice(FLOWS).values
    world = begin(flow)
    for _ in range(6):
        world.killed_at_random("driver" if apart else "both", draw)
    world.finish(apart=apart)
