"""`reliable-rx demo`: the same job twice, once in peace and once killed at random moments, and then the comparison."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from hosting.cli.terminal import say
from hosting.cli.wording import BadUsage, plural, span
from hosting.demo import data
from hosting.demo.chart import draw
from hosting.demo.progress import Progress
from hosting.demo.queries import QUERIES
from hosting.demo.tables import Streams, results
from hosting.demo.verdict import Verdict, compare
from reliable_rx.errors import SourceFailed

MARK = ".reliable-rx-demo"
EARLIEST, LATEST = 0.05, 0.95
HESITATION_S = 0.25
AGAIN, AGAIN_MAX = 75, 5
"""What a worker ends with that has met a failure beside it and is to be started again; and how often in all.

The last status of such a worker has the failure under ``failed``.
"""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What it took to go on after a kill: events replayed, and seconds until the first new output."""

    at: int
    replayed: int
    replay_s: float
    first_output_s: float


@dataclass(slots=True)
class Run:
    """One run of the job, over one process or several."""

    events: int = 0
    seconds: float = 0.0
    kills: list[int] = field(default_factory=list)
    recoveries: list[Recovery] = field(default_factory=list)
    last_words: list[dict[str, Any]] = field(default_factory=list)
    """What each process that was killed had said last."""
    restarts: int = 0
    """How often a process had to be started again that nobody had killed."""


@dataclass(frozen=True, slots=True)
class Folders:
    """Where everything of the demo is."""

    out: Path
    data: Path
    store: Path
    events: int

    def streams(self, run: str) -> Path:
        return self.out / run / "streams"


def run_demo(out: Path, *, store: Path | None, kills: int, seed: int | None, events: int | None) -> int:
    """Run the demo; return 0 if no record differs."""
    folders = prepare(out, store, events)
    seed = random.randrange(10_000) if seed is None else seed
    say(f"the flights out of New York in 2013, {len(QUERIES)} standing queries, everything in {out}/")
    plain = in_peace(folders)
    say(f"  {told(plain)}")
    title = f"under fire (kill -9 at random moments, seed {seed})"
    killed = under_fire(command(folders, "killed", folders.store), title, kills, seed, plain)
    say(f"  {told(killed)}")
    say()
    names, streams = data.carriers(folders.data), Streams(folders.streams("killed"))
    for line in results(streams, names):
        say(line)
    verdict = compare(QUERIES, folders.streams("plain"), folders.streams("killed"))
    for line in judgement(verdict, killed, seed):
        say(line)
    title = f"New York's airports in 2013, out of a process that was killed {plural(len(killed.kills), 'time')}"
    picture = draw(streams, names, out / "flights.png", title)
    say(f"chart    {picture}")
    say(f"streams  {folders.streams('killed')}/*.jsonl")
    say(f"look     reliable-rx inspect {quote(str(folders.store))}")
    return 0 if verdict.clean else 1


def prepare(out: Path, store: Path | None, events: int | None) -> Folders:
    """Make room for a fresh demo. *Raises* `BadUsage` rather than delete what is not a demo's."""
    source = data.installed_folder()
    store = out / "killed" / "store" if store is None else store
    for folder in dict.fromkeys((out, store)):
        if folder.exists() and not (folder / MARK).exists() and any(folder.iterdir()):
            raise BadUsage(f"{folder} is not empty, and not of an earlier demo; name another folder")
    for folder in (out / "plain", out / "killed", out / "data", store):
        shutil.rmtree(folder, ignore_errors=True)
    for folder in (out, store):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARK).touch()
    if events is None:
        return Folders(out, source, store, data.EVENTS)
    folder = data.shortened(source, events, out / "data")
    return Folders(out, folder, store, data.count(folder))


# -- the two runs


def command(folders: Folders, run: str, store: Path) -> list[str]:
    """Return what starts the process that hosts the job."""
    streams = folders.streams(run)
    streams.mkdir(parents=True, exist_ok=True)
    return [sys.executable, "-m", "hosting.demo.worker", str(folders.data), str(streams), str(store)]


def in_peace(folders: Folders) -> Run:
    """Run the job in one process that nobody disturbs."""
    started = command(folders, "plain", folders.out / "plain" / "store")
    return under_fire(started, "in peace", 0, 0, Run(events=folders.events))


def under_fire(started: Sequence[str], title: str, kills: int, seed: int, plain: Run) -> Run:
    """Run the job by the command *started*, and kill its process *kills* times on the way through *plain*'s events.

    *Raises* `SourceFailed` if its process fails, or fails too often of what it asks to be started again after.
    """
    run, chance = Run(), random.Random(seed)
    moments = sorted(round(chance.uniform(EARLIEST, LATEST) * plain.events) for _ in range(kills))
    began = time.perf_counter()
    with Progress(title, total=plain.events) as progress:
        ahead: list[int | None] = [*moments, None]
        while ahead:
            with working(started) as worker:
                last = follow(worker, run, progress, until=ahead[0])
                if last.get("done"):
                    break
                if worker.returncode is None:
                    time.sleep(chance.uniform(0, min(HESITATION_S, plain.seconds / (4 * kills))))
                    kill(worker, last)
            if worker.returncode == AGAIN:
                start_again(run, last)
                continue
            ahead.pop(0)
            if worker.returncode < 0:
                run.kills.append(last["position"])
                run.last_words.append(last)
                progress.mark(last["position"])
    run.seconds = time.perf_counter() - began
    return run


def start_again(run: Run, last: dict[str, Any]) -> None:
    """Count a failure after which a worker is started again. *Raises* `SourceFailed` if there were too many."""
    run.restarts += 1
    failed = last.get("failed", "it did not say why")
    if run.restarts > AGAIN_MAX:
        message = f"the process that hosts the queries has failed {plural(run.restarts, 'time')}, at last so: {failed}"
        raise SourceFailed(message, source="")
    say(f"  failed, and started again where it was, {run.restarts} of at most {AGAIN_MAX} times: {failed}")


def kill(worker: subprocess.Popen[bytes], last: dict[str, Any]) -> None:
    """Kill a worker, and what it has said to be one with it."""
    for each in (worker.pid, *last.get("one_with", ())):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


@contextmanager
def working(started: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a worker, and leave none behind; out of reach of our terminal, so that a Ctrl-C is ours alone."""
    with subprocess.Popen(started, stdout=subprocess.PIPE, start_new_session=True) as worker:
        try:
            yield worker
        except BaseException:
            worker.kill()
            raise


def follow(worker: subprocess.Popen[bytes], run: Run, progress: Progress, *, until: int | None) -> dict[str, Any]:
    """Read what a worker says until it has reached the event *until*, or has ended; return the last it said.

    *Raises* `SourceFailed` if it has ended without being done, and does not ask to be started again.
    """
    began = time.perf_counter()
    last: dict[str, Any] = {}
    told = not run.kills or any(each.at == run.kills[-1] for each in run.recoveries)
    for last in statuses(worker):
        progress.show(last["position"], last["time"])
        if not told and last["emitted"]:
            told = True
            waited = time.perf_counter() - began
            run.recoveries.append(Recovery(run.kills[-1], last["replayed"], last["recovery_s"], waited))
        if until is not None and last["position"] >= until and last["taken"]:
            return last
    code = worker.wait()
    if last.get("done"):
        run.events = last["position"]
    elif code != AGAIN:
        raise SourceFailed(f"the process that hosts the queries has failed with exit code {code}; see above", source="")
    return last


def statuses(worker: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    if worker.stdout is not None:
        yield from map(json.loads, worker.stdout)


# -- what is said at the end


def told(run: Run) -> str:
    """Say in a line how a run went."""
    killed = f", killed {plural(len(run.kills), 'time')}" if run.kills else ""
    return f"{plural(run.events, 'event')} in {span(run.seconds)}{killed}"


def judgement(verdict: Verdict, killed: Run, seed: int) -> Iterator[str]:
    """Say what the kills have done."""
    yield from kills_told(killed, seed)
    yield from verdict_told(verdict, "stream")


def kills_told(killed: Run, seed: int) -> Iterator[str]:
    yield f"killed {plural(len(killed.kills), 'time')} (--seed {seed} repeats the moments)"
    if killed.restarts:
        yield f"  besides, {plural(killed.restarts, 'failure')} told above, after which the process was started again"
    for number, recovery in enumerate(killed.recoveries, 1):
        yield (
            f"  {number}. after {recovery.at:,} events: replayed {recovery.replayed:,} in {span(recovery.replay_s)}, "
            f"first new output {span(recovery.first_output_s)} after the start of the new process"
        )


def verdict_told(verdict: Verdict, noun: str, *, details: Iterable[str] = ()) -> Iterator[str]:
    """Yield the ledger, and where it is not clean."""
    yield ""
    yield f"compared {plural(verdict.records, 'record')} in {plural(len(verdict.ledgers), noun)} with the peaceful run"
    yield from details
    for name, ledger in verdict.ledgers.items():
        if not ledger.clean:
            yield f"  {name}: {ledger}"
    yield from ("", f"  {verdict}", "")
