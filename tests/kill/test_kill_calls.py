"""Real processes that ask a real service, really killed: what is journalled is never asked again.

The service outlives them. Its serial numbers say which of several questions for one event an answer belongs to: the
result that came out must be that of the *last* question, because after a recorded answer there is none.
"""

from __future__ import annotations

import random
import socketserver
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from calls_app import CONCURRENCY, EVENTS
from forked import Forked, script
from kill_harness import KILLED, wait_for_store

from checkpoint import SqliteStore
from hosting.edges.stored_outputs import stored_segments

APP = Path(__file__).with_name("calls_app.py")
POINTS = (
    "call.before", "call.answered", "journal.before_commit", "journal.after_commit", "checkpoint.before_snapshot",
    "checkpoint.before_commit", "checkpoint.mid_commit", "checkpoint.after_commit", "checkpoint.before_acknowledge",
)  # fmt: skip


class Service(socketserver.ThreadingTCPServer):
    """Answers every question with a serial number, and keeps the ledger."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Question)
        self.serials = count()
        self.ledger: dict[int, list[int]] = {}
        self.lock = threading.Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        """The one who asked is dead."""


class Question(socketserver.StreamRequestHandler):
    server: Service

    def handle(self) -> None:
        line = self.rfile.readline()
        if line.endswith(b"\n"):
            with self.server.lock:
                serial = next(self.server.serials)
                self.server.ledger.setdefault(int(line), []).append(serial)
            self.wfile.write(f"{serial}\n".encode())


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as service:
        threading.Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield service
        service.shutdown()


class CallsLife:
    """One folder, and the processes that host it one after the other."""

    def __init__(self, folder: Path, service: Service) -> None:
        self.folder, self.service = folder, service
        self.kills = 0

    def run(self, *, faults: str = "", kill_after_s: float | None = None) -> int:
        command = [str(APP), str(self.folder), str(self.service.server_address[1])]
        with Forked(command, script, environment={"RELIABLE_RX_FAULTS": faults}) as process:
            if kill_after_s is not None:
                wait_for_store(process, self.folder)
                timer = threading.Timer(kill_after_s, process.kill)
                timer.start()
            _, complaint = process.communicate()
        assert process.returncode in (0, KILLED), complaint
        self.kills += process.returncode == KILLED
        return process.returncode

    def check(self) -> None:
        """Finish in peace; every event has one result, in order, and it is that of the last time it was asked for."""
        assert self.run() == 0
        with SqliteStore.read_only(self.folder / "store") as store:
            found = [value for segment in stored_segments(store, "q", 0) for value in segment.values]
        ledger = self.service.ledger
        assert found == [(n, ledger[n][-1], n + 1) for n in range(EVENTS)]
        calls = sum(map(len, ledger.values()))
        assert calls <= EVENTS + CONCURRENCY * self.kills, "more was asked again than can have been in flight"


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_named_point_of_a_call(point: str, service: Service, tmp_path: Path) -> None:
    """Kills around a call, its answer, the journal and a checkpoint, each a little later than the one before."""
    life = CallsLife(tmp_path, service)
    for number in (1, 2, 3, 5, 8):
        life.run(faults=f"{point}:kill@{number}")
    assert life.kills >= 2
    life.check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_moment_of_a_call(seed: int, service: Service, tmp_path: Path) -> None:
    """Kills at random moments, then in peace to the end."""
    draw, life = random.Random(seed), CallsLife(tmp_path, service)
    for _ in range(6):
        life.run(kill_after_s=draw.random() * 0.4)
    life.check()


@pytest.mark.slow
def test_without_kills_everything_is_asked_once(service: Service, tmp_path: Path) -> None:
    """The ledger of the service has one call per event."""
    CallsLife(tmp_path, service).check()
    assert all(len(serials) == 1 for serials in service.ledger.values())
