"""Running the command line as a real process, for the tests of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COMMAND = [sys.executable, "-m", "hosting.cli"]


def cli(*arguments: str | Path, cwd: Path, code: int = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and hold it to its exit code; whatever it says, it is no traceback."""
    command = [*COMMAND, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


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
