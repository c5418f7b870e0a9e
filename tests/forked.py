"""Real processes that are forked from one that has the imports behind it.

What hosts a query spends most of its life on imports, and a test that kills it ten times pays for them ten times. What
is forked is a process like any other: with memory, files and an end of its own, and SIGKILL ends it. What depends on
how Python itself is started (hash seeds, options, `atexit`) is not for this.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["hosting.cli.node", "psycopg"])  # by name: there is one such server, for all who fork
WAIT_S = 120.0


class Forked:
    """A process that runs, used as a `subprocess.Popen` of texts is."""

    def __init__(
        self,
        command: list[str],
        be: Callable[[list[str]], object],
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        stdin: str = "",
    ) -> None:
        self.args = command
        self._folder = tempfile.TemporaryDirectory()
        given, said, self._complaint = (Path(self._folder.name, name) for name in ("in", "out", "err"))
        given.write_text(stdin)
        os.mkfifo(said)
        self._complaint.touch()
        place = os.environ | (environment or {}), str(cwd or Path.cwd())
        self._process = PROCESSES.Process(target=begin, args=(command, be, *place, [given, said, self._complaint]))
        self._process.start()
        self.stdout, self.stderr = said.open(), self._complaint.open()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float = WAIT_S) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise TimeoutError(f"{self.args} has not ended in {timeout:g} s")
        return self.returncode

    def communicate(self, timeout: float = WAIT_S) -> tuple[str, str]:
        """Read what it says to its end, and what it complained of."""
        said = self.stdout.read()
        self.wait(timeout)
        return said, self.stderr.read()

    def __enter__(self) -> Forked:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stdout.close()
        self.stderr.close()
        self.wait()
        self._folder.cleanup()


def begin(
    command: list[str], be: Callable[[list[str]], object], environment: dict[str, str], cwd: str, files: list[Path]
) -> None:
    """Be the process of *command*, reading and writing these files."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate(files):
        os.dup2(os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY), number)
    sys.stdin = os.fdopen(0)
    be(command)


def script(command: list[str]) -> None:
    """Be what ``python`` followed by *command* is."""
    sys.argv = command
    sys.path.insert(0, str(Path(command[0]).parent))
    runpy.run_path(command[0], run_name="__main__")
