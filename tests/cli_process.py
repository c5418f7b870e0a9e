"""Running the command line as a real process, for the tests of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forked import Forked

from hosting.cli import main
from hosting.cli.wording import FAILED


def cli(*arguments: str | Path, cwd: Path, code: int = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and hold it to its exit code; it shows no traceback but in its log."""
    with running(*arguments, cwd=cwd, stdin=stdin) as process:
        said, complaint = process.communicate()
    assert process.returncode == code, f"{said}\n{complaint}"
    is_logged = " ERROR " in complaint or " WARNING " in complaint
    assert code == FAILED or is_logged or "Traceback" not in complaint
    return subprocess.CompletedProcess(process.args, code, said, complaint)


def be(command: list[str]) -> None:
    """Be ``reliable-rx`` with *command*; what is imported is looked for where it runs, as by ``python -m``."""
    sys.path.insert(0, "")
    sys.exit(main(command))


@contextmanager
def running(*arguments: str | Path, cwd: Path, stdin: str = "") -> Iterator[Forked]:
    """Start a command and leave none behind."""
    with Forked([*map(str, arguments)], be, cwd=cwd, stdin=stdin) as process:
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()


def status_of(folder: Path, code: int = 0) -> Any:
    """Return what `status` says of the store ``s`` in *folder*, and hold it to its exit code."""
    return json.loads(cli("status", "--store", "s", "--json", cwd=folder, code=code).stdout)


def stop(process: Forked) -> str:
    """Have *process* stop in order; return what it said in the log."""
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=60)[1]


def kill(process: Forked) -> None:
    """Have *process* end at once."""
    process.kill()
    process.communicate(timeout=60)


def wait_for(process: Forked, text: str) -> None:
    """Read what *process* says until a line holds *text*."""
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"the process ended without saying {text!r}: {process.stderr.read()}")


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path
