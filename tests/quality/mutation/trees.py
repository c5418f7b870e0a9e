"""Copies of the work tree, and pytest in one of them, bounded in time and memory.

A mutant can loop for ever, allocate without end or leave processes behind. A run that takes too long has failed; what a
run has started and not ended is known by a variable of its environment, and ended with it.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[3]
MEMORY_MAX_KB = 6_000_000
MARK = "MUTATION_RUN"
TIMED_OUT = 124
OUTPUT_MAX = 20_000
SECONDS = itertools.count(1_000_000_000)
"""Times of changes, each of its own, long before those of the files."""
ROUNDS_MAX, ROUND_S = 200, 0.05
"""What is killed may take a while to be gone, and may have started more before."""


def copy_of_tree(folder: Path) -> Path:
    """Write what the work tree has into *folder*, but for what git ignores."""
    folder.mkdir(parents=True)
    for name in files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


def files(below: str = ".") -> list[str]:
    """Return the paths of the files of the work tree, but for what git ignores."""
    command = ["git", "ls-files", "-zco", "--exclude-standard", below]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(name for name in listed.split("\0") if name and (ROOT / name).exists())


@contextmanager
def changed(file: Path, text: str) -> Iterator[None]:
    """Have *file* hold *text* for a while, with a time of its own: bytecode is known by the second and the size."""
    before, times = file.read_text(), file.stat()
    file.write_text(text)
    os.utime(file, (times.st_atime, next(SECONDS)))
    try:
        yield
    finally:
        file.write_text(before)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def pytest(tree: Path, *arguments: str, timeout_s: float | None = None, **env: str) -> tuple[int, str]:
    """Run pytest in *tree*; return its exit code, and the end of its output."""
    mark = uuid.uuid4().hex
    limited = ["sh", "-c", 'ulimit -v "$0"; exec "$@"', str(MEMORY_MAX_KB)]
    command = [*limited, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "", MARK: mark, **env}
    output = tree.with_name(f"{tree.name}.output")
    with output.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=tree, env=environment, start_new_session=True, stdout=file, stderr=subprocess.STDOUT
        )
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = TIMED_OUT
        finally:
            end_all(mark)
            process.wait()
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - OUTPUT_MAX))
        return code, file.read().decode(errors="replace")


def end_all(mark: str) -> None:
    """End the processes of one run, where the system tells which they are."""
    entry = f"{MARK}={mark}".encode()
    for _ in range(ROUNDS_MAX):
        left = [process for process in Path("/proc").glob("[0-9]*") if has_in_environment(process, entry)]
        if not left:
            return
        for process in left:
            with suppress(OSError):
                os.kill(int(process.name), signal.SIGKILL)
        time.sleep(ROUND_S)


def has_in_environment(process: Path, entry: bytes) -> bool:
    try:
        return entry in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
