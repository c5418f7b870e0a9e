"""Real kills, at every named point and at random, of Spark's driver and of evaluators: nothing lost, nothing twice.

A start of Spark costs some eight seconds. So in the usual lane one driver has a query of each source, both forms and
all plans, and its lives end at each point at which Spark writes; the fourth one only loses a worker. The whole
product, one query at a time, and with its JVM killed alone, runs with ``RELIABLE_RX_SPARK_KILLS=all``. There, first,
one life goes by in peace, whose JVM leaves behind what it has made of Spark's classes: with that a start takes half
the CPU time (9 s instead of 18 s), and there are nearly two hundred. On two cores that others used as well the 27
cases took a hundred minutes, each from one and a half to eight.
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
from spark_kill_world import PARTS, SPANS, Kill, Part, Side, World

from spark_bridge.micro_batch_log import names

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
    return pytest.param(flow, apart, id=f"{flow.name}-{'two' if apart else 'one'}")


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
LOG, MADE = Flow("log", "sink", 2), Flow("made", "foreach_batch", 2)
WINDOWS, KEYED = Flow("files", "foreach_batch", plan="windows"), Flow("clock", "sink", plan="keyed")
JVM_OPTIONS = "SPARK_SUBMIT_OPTS"
ALL = os.environ.get("RELIABLE_RX_SPARK_KILLS") == "all"
pytestmark = pytest.mark.timeout(1800)


Begin = Callable[..., World]


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let a life in peace leave its JVM's classes to all that follow. Of few lives each reads its own."""
    with pytest.MonkeyPatch.context() as patch:
        if ALL and JVM_OPTIONS not in os.environ:
            folder = tmp_path_factory.mktemp("classes")
            patch.setattr(names, "SPANS", SPANS)
            patch.setenv(JVM_OPTIONS, f"-XX:ArchiveClassesAtExit={folder / 'spark.jsa'}")
            with contextlib.closing(World(folder, LOG, MADE, WINDOWS, KEYED)) as world:
                world.finish(world.start("both"))
            patch.setenv(JVM_OPTIONS, f"-XX:SharedArchiveFile={folder / 'spark.jsa'}")
        yield


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, classes: None) -> Iterator[Begin]:
    """Make the world of some flows; nothing of it is left running. Old batches are put together soon, here as there."""
    monkeypatch.setattr(names, "SPANS", SPANS)
    with contextlib.ExitStack() as worlds:

        def made(*flows: Flow) -> World:
            return worlds.enter_context(contextlib.closing(World(tmp_path, *flows)))

        yield made


def by_evaluator(*points: str) -> list[Kill]:
    return [Kill(point, side=BY_EVALUATOR) for point in points]


def test_four_queries_of_one_driver_are_killed(begin: Begin) -> None:
    """A log by key, made-up rows by key, windows in foreachBatch, and a standing query on Spark over its clock.

    The driver and the evaluator, one process, die as executors write, before a manifest, and behind one. Of a driver
    apart a worker dies; and the evaluator beside it in turns, forgetting and compacting.
    """
    world = begin(LOG, MADE, WINDOWS, KEYED)
    world.killed("both", Kill("spark.part_written", flow=LOG.name))
    world.killed("both", Kill("spark.before_manifest", flow=MADE.name))
    world.killed("both", Kill("spark.after_manifest", flow=WINDOWS.name))
    driver = world.lives_on("driver", Kill("spark.part_written", victim="self", flow=LOG.name))
    turns = by_evaluator("app.turn", "checkpoint.before_acknowledge")
    for kill in turns + by_evaluator(*FORGETTING, *COMPACTING, "spark.after_manifest"):
        world.killed("evaluator", kill, driver)
    world.finish(driver, world.start("evaluator"))
    assert world.kills == 10


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
        world.finish(world.start("both"))
        return
    beside = world.start("driver")
    for kill in kills:
        world.killed("evaluator", kill, beside)
    world.finish(beside, world.start("evaluator"))


@pytest.mark.skipif(not ALL, reason="the whole product of kills: RELIABLE_RX_SPARK_KILLS=all")
@pytest.mark.parametrize("seed", range(8))
def test_killed_at_any_moment(seed: int, begin: Begin) -> None:
    """Six times at random moments: everything, the driver alone, its JVM alone, a worker alone; then in peace."""
    draw = random.Random(seed)
    flow, apart = draw.choice(FLOWS).values
    world = begin(flow)
    parts: list[Part] = [*PARTS, *PARTS]
    draw.shuffle(parts)
    for part in parts[:6]:
        world.killed_at_random("driver" if apart else "both", draw, part=part)
    world.finish(*map(world.start, ("driver", "evaluator") if apart else ("both",)))
