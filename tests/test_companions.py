"""What runs beside an evaluator, in `reliable-rx run` as a real process: shown, ended, stopped in order, failed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from cli_process import cli, running, stop, wait_for, write

import reliable_rx as rx
from hosting import App, ListSource
from hosting.evaluator.sidecars import CompanionFigures, Companions
from hosting.partitioned.sections import sections_of
from reliable_rx.errors import QueryRefused

FILLED = """
import threading
import pyarrow as pa
from hosting import App, JsonLinesSink
from hosting.evaluator.sidecars import CompanionFigures
from spark_bridge import MicroBatchSource
from spark_bridge.micro_batch_log import append

BATCHES = {batches}
app = App(checkpoint_interval_s=0.1)
numbers = app.source("numbers", MicroBatchSource("log"))
app.query("sums", numbers.map(lambda row: row["n"]).scan(lambda total, n: total + n, 0))
app.sink("sums", lambda: JsonLinesSink("sums.jsonl"))


@app.companion
class Filling:
    def __init__(self):
        self.batch, self.asked = 0, threading.Event()
        self.thread = threading.Thread(target=self.fill)
        self.thread.start()

    def fill(self):
        while self.batch < BATCHES and not self.asked.is_set():
            append("log", [pa.record_batch({{"n": [self.batch]}})], batch=self.batch)
            self.batch += 1
            if self.batch == 40:
                print("far enough", flush=True)

    @property
    def ended(self):
        if self.batch == {fails}:
            raise OSError("the companion has fallen ill")
        return not self.thread.is_alive()

    def figures(self):
        return [CompanionFigures("filling", "running", self.batch, self.batch, 1.0, 0.5, 7)]

    def stop(self):
        self.asked.set()
        self.thread.join()
        print("the companion has stopped", flush=True)
"""


def test_a_run_ends_when_its_companion_has_and_all_is_taken(tmp_path: Path) -> None:
    """The log is not there when the evaluator starts, appears by the companion's doing, and is taken to its end."""
    write(tmp_path, "filled.py", FILLED.format(batches=25, fails=-1))
    said = cli("run", "filled.py:app", cwd=tmp_path).stdout
    assert said.index("the companion has stopped") < said.index("25 events in and 25 out")
    lines = (tmp_path / "sums.jsonl").read_text().splitlines()
    assert lines[-1] == f'{{"id":24,"value":{sum(range(25))}}}' and len(lines) == 25


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGINT], ids=lambda number: number.name
)
def test_a_companion_is_stopped_before_the_last_checkpoint(tmp_path: Path, number: signal.Signals) -> None:
    """What it did up to its stop is in the checkpoint, or comes at the next start: nothing is lost or comes twice."""
    write(tmp_path, "filled.py", FILLED.format(batches=10**9, fails=-1))
    with running("run", "filled.py:app", cwd=tmp_path) as process:
        wait_for(process, "far enough")
        process.send_signal(number)
        said, complaint = process.communicate(timeout=60)
    assert process.returncode == 0, complaint
    assert said.index("the companion has stopped") < said.index("stopped: ")
    write(tmp_path, "filled.py", FILLED.format(batches=0, fails=-1))
    cli("run", "filled.py:app", cwd=tmp_path)
    batches = len(list((tmp_path / "log").glob("manifest-*")))
    sums = [int(line.partition('"value":')[2][:-1]) for line in (tmp_path / "sums.jsonl").read_text().splitlines()]
    assert sums == [sum(range(n + 1)) for n in range(len(sums))] and len(sums) >= batches


@pytest.mark.slow
def test_a_companion_that_fails_ends_the_run_with_its_error(tmp_path: Path) -> None:
    """It is stopped all the same, a checkpoint is taken, and the exit code is 1."""
    write(tmp_path, "filled.py", FILLED.format(batches=25, fails=25))
    failed = cli("run", "filled.py:app", cwd=tmp_path, code=1)
    assert "the companion has fallen ill" in failed.stderr
    assert "the companion has stopped" in failed.stdout and "is durable" in failed.stdout


@pytest.mark.slow
def test_the_plain_view_tells_of_companions(tmp_path: Path) -> None:
    """A line of the display has batch, rows a second, latency and state, and the lag behind the log."""
    write(tmp_path, "filled.py", FILLED.format(batches=10**9, fails=-1))
    with running("run", "filled.py:app", cwd=tmp_path) as process:
        wait_for(process, " · lag ")
        wait_for(process, ", 1/s, 500 ms, 7 rows of state")
        stop(process)


def test_a_start_that_fails_is_an_error_and_the_others_are_stopped() -> None:
    """What cannot be started has no figures, and its error is kept."""

    class Endless:
        ended = False
        stopped = False

        def figures(self) -> list[CompanionFigures]:
            return [CompanionFigures("endless", "running")]

        def stop(self) -> None:
            self.stopped = True

    endless, companions = Endless(), Companions()
    started: list[bool] = []
    companions.start([lambda: endless, lambda: int("no number")], started=lambda: started.append(True))  # type: ignore
    companions.close()
    assert endless.stopped and companions.ended and started == [True]
    assert isinstance(companions.error, ValueError)
    assert [each.name for each in companions.figures()] == ["endless"]


def test_nodes_refuse_an_app_with_a_companion() -> None:
    """Each node would start one."""
    app = App()
    app.query("same", app.source("numbers", ListSource([1])).map(lambda n: n))
    app.companion(lambda: pytest.fail("nobody starts it"))
    with pytest.raises(QueryRefused, match="companion"):
        sections_of(app)


def test_a_source_without_partitions_has_not_ended(tmp_path: Path) -> None:
    """A query over a log that nobody has written yet runs on, also after a restart."""
    from checkpoint import MemoryStore
    from hosting import QueryEvaluator
    from spark_bridge import MicroBatchSource

    store = MemoryStore()
    for _ in range(2):
        with QueryEvaluator(store) as evaluator:
            evaluator.source("rows", MicroBatchSource(tmp_path / "log"))
            evaluator.create("same", rx.source("rows").map(lambda row: row))
            evaluator.start()
            assert evaluator.query("same").status == "running"
