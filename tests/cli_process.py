"""Running the command line as a real process, for the tests of it.

What runs to its end is forked from a process that has the imports behind it: they cost more than most commands do. What
is to be told something while it runs is started as a user would start it.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hosting.cli import main

COMMAND = [sys.executable, "-m", "hosting.cli"]
WAIT_S = 120.0
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["hosting.cli.node"])  # by name, as in tests/partitioned: there is one such server


def cli(*arguments: str | Path, cwd: Path, code: int = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and hold it to its exit code; whatever it says, it is no traceback."""
    command = [*map(str, arguments)]
    with tempfile.TemporaryDirectory() as name:
        files = [Path(name, each) for each in ("in", "out", "err")]
        files[0].write_text(stdin)
        process = PROCESSES.Process(target=be, args=(command, cwd, files, dict(os.environ)))
        process.start()
        process.join(WAIT_S)
        if process.exitcode is None:
            process.kill()
            process.join()
        said, complaint = (each.read_text() if each.exists() else "" for each in files[1:])
    assert process.exitcode == code, f"{said}\n{complaint}"
    assert "Traceback" not in complaint
    return subprocess.CompletedProcess(command, code, said, complaint)


def be(command: list[str], cwd: Path, files: Sequence[Path], environment: dict[str, str]) -> None:
    """Be the process of *command*, reading and writing these files."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, str(cwd))
    for number, path in enumerate(files):
        os.dup2(os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT), number)
    sys.stdin = os.fdopen(0)
    sys.exit(main(command))


@contextmanager
def running(*arguments: str | Path, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a command and leave none behind."""
    command = [*COMMAND, *map(str, arguments)]
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    """Read what *process* says until a line holds *text*."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    assert process.stderr is not None
    raise AssertionError(f"the process ended without saying {text!r}: {process.stderr.read()}")


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path
