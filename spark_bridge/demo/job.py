"""`reliable-rx demo --spark`: the main job without Spark and in peace, then with Spark and under fire, and compared."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Any

from hosting.cli.terminal import say
from hosting.cli.wording import plural, span, table
from hosting.demo.airport import stream_file
from hosting.demo.job import Folders, Run, in_peace, kills_told, prepare, told, under_fire, verdict_told
from hosting.demo.queries import QUERIES
from hosting.demo.tables import Streams
from hosting.demo.verdict import Verdict, compare
from reliable_rx.testing.ledger import Ledger, check_ledger
from spark_bridge.demo.feed import Feed, write_feed
from spark_bridge.demo.hosted import BY_SPARK, FILES_PER_BATCH, READ
from spark_bridge.demo.keyed import KEYED, main_rows, spark_rows
from spark_bridge.demo.worker import BATCH_COUNTS
from spark_bridge.session import check_java

FLIGHTS = 27_004
"""January: about three minutes on two cores."""
WINDOWS = "departures_per_hour"


def run_spark_demo(out: Path, *, store: Path | None, kills: int, seed: int | None, events: int | None) -> int:
    """Run the demo; return 0 if no record differs."""
    check_java()
    began = time.perf_counter()
    folders = prepare(out, store, events or FLIGHTS)
    logs = clean_logs(out)
    feed = write_feed(folders.data, out / "data" / "feed")
    seed = random.randrange(10_000) if seed is None else seed
    say(f"{plural(feed.flights, 'flight')} out of New York in 2013, {len(QUERIES)} standing queries, all in {out}/")
    plain = in_peace(folders)
    say(f"  {told(plain)}")
    streams = Streams(folders.streams("plain"))
    whole = Run(events=plain.events + len(streams[WINDOWS]) + BATCH_COUNTS * batches(feed), seconds=plain.seconds)
    title = f"through Spark, {len(KEYED)} of the queries there as well, under fire (kill -9, seed {seed})"
    killed = under_fire(command(folders, feed.folder, logs), title, kills, seed, whole)
    say(f"  {told(killed)}")
    say()
    for line in [*kills_told(killed, seed), *places(killed)]:
        say(line)
    verdict = judge(folders, streams, logs)
    for line in verdict_told(verdict, "result", details=detailed(verdict)):
        say(line)
    say(f"all of it took {span(time.perf_counter() - began)}")
    say(f"look     reliable-rx inspect {quote(str(folders.store))}")
    return 0 if verdict.clean and len(killed.kills) == kills else 1


def batches(feed: Feed) -> int:
    """Return how many batches of Spark's the feed will be, the empty ones for the last watermark left out."""
    files = -(-feed.flights // feed.per_file) + 1
    return files + (len(READ) - 1 + len(KEYED)) * -(-files // FILES_PER_BATCH)


def clean_logs(out: Path) -> Path:
    """Return where the logs and the checkpoints of Spark's go, below what `prepare` empties."""
    return out / "killed" / "logs"


def command(folders: Folders, feed: Path, logs: Path) -> list[str]:
    """Return what starts the process that runs Spark and hosts the job."""
    streams = folders.streams("killed")
    streams.mkdir(parents=True, exist_ok=True)
    paths = (feed, folders.data, streams, folders.store, logs)
    return [sys.executable, "-m", "spark_bridge.demo.worker", *map(str, paths)]


def judge(folders: Folders, streams: Streams, logs: Path) -> Verdict:
    """Compare everything that came through Spark with the main job's streams."""
    hosted = compare(QUERIES, folders.streams("plain"), folders.streams("killed")).ledgers
    ledgers = {f"{name}, hosted": ledger for name, ledger in hosted.items()}
    ledgers[f"{WINDOWS}, by Spark's windows"] = windows(streams, folders.streams("killed"))
    for each in KEYED:
        ledgers[f"{each.name}, on Spark"] = check_ledger(
            main_rows(each, streams[each.name]), spark_rows(each, logs / each.name)
        )
    return Verdict(ledgers)


def windows(streams: Streams, killed: Path) -> Ledger:
    """Compare Spark's windows with the main job's; neither keeps an order among the airports of an hour."""
    with open(stream_file(killed, BY_SPARK), "rb") as file:
        found = [record["value"] for record in map(json.loads, file) if "value" in record]
    return check_ledger(*(sorted(map(json.dumps, each)) for each in (streams[WINDOWS], found)))


def detailed(verdict: Verdict) -> Iterator[str]:
    rows = [
        (name, ledger.expected, ledger.got, "yes" if ledger.clean else "NO") for name, ledger in verdict.ledgers.items()
    ]
    yield from table(("result", "main job", "with Spark", "equal"), rows)


def places(killed: Run) -> Iterator[str]:
    """Say where each kill fell."""
    for number, last in enumerate(killed.last_words, 1):
        yield f"  {number}. killed driver and JVM: {place(last)}"


def place(last: dict[str, Any]) -> str:
    batches = ", ".join(f"{name} {count}" for name, count in last["batches"].items())
    return f"{last['hosted']:,} events hosted; batches of Spark's: {batches}"
