"""What a test may not leave behind: the collector off, a log that is silent, a thread, an open file, a child process.

Whoever comes next would pay for it, or fail in its place. Looked at before and after every test, cheaply: only where
something is left the cycles are collected, and threads that are ending are waited for, with the files that those of
a library still read ahead. What a collection between two tests has left over is frozen: it stays until the run ends,
and each later one would go over all of it again.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import NamedTuple

from reliable_rx.unhosted.loop import SHARED

PACKAGES = ("reliable_rx", "checkpoint", "hosting", "spark_bridge")
LOG = logging.getLogger("reliable_rx")
COLLECTOR = "the garbage collector, which is off"
ENDING_S = 60.0
FILES = Path("/proc/self/fd")
TASKS = Path("/proc/self/task")
SERVANTS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
KEPT = set[str]()
"""Processes that a whole run has in common."""
LIBRARIES = (sys.prefix, sys.base_prefix, "/usr/", "/dev/", "/proc/", "/sys/")
"""Files below these are read once and kept by whoever has read them: time zones, fonts, shared objects."""
IN_MEMORY = "/dev/shm/"
"""Where tests may write, although it is below one of those."""
HEAP = f"{IN_MEMORY}pym-"
"""How the files are called that `multiprocessing` shares a barrier's memory by, and keeps for the next one."""


class State(NamedTuple):
    """What there is at one moment."""

    collects: bool
    log_level: int
    threads: frozenset[threading.Thread]
    descriptors: frozenset[str]
    children: frozenset[str]


def now() -> State:
    """Look at this process."""
    return State(gc.isenabled(), LOG.level, frozenset(filter(counts, threading.enumerate())), descriptors(), children())


def counts(thread: threading.Thread) -> bool:
    """Whether *thread* is one that somebody must end: of the library, or one that keeps the process alive."""
    if not thread.daemon:
        return True
    if thread is SHARED.thread:  # which all un-hosted queries of a process have in common
        return False
    target = getattr(thread, "_target", None)
    where = getattr(target, "__module__", None) or type(thread).__module__
    return where.partition(".")[0] in PACKAGES


def descriptors() -> frozenset[str]:
    """Return the file descriptors that are open here, where the system tells."""
    try:
        return frozenset(filter(is_open, os.listdir(FILES)))
    except OSError:
        return frozenset()


def is_open(descriptor: str) -> bool:
    """Whether *descriptor* is open: the one that was used to list them is not any more."""
    try:
        os.fstat(int(descriptor))
    except OSError:
        return False
    return True


def path_of(descriptor: str) -> str:
    """Return the path of the regular file that *descriptor* is open for; empty for others, and for a library's."""
    try:
        path = os.readlink(f"{FILES}/{descriptor}")
    except OSError:  # the one that listed them
        return ""
    if path.startswith(HEAP):
        return ""
    is_ours = path.startswith(IN_MEMORY) or (path.startswith("/") and not path.startswith(LIBRARIES))
    return path if is_ours else ""


def children() -> frozenset[str]:
    """Return the ids of child processes of the thread that runs the tests."""
    try:
        with open(f"{TASKS}/{os.getpid()}/children") as file:
            return frozenset(file.read().split())
    except OSError:
        return frozenset()


def is_servant(process: str) -> bool:
    """Whether *process* is one that is started once and kept: by the run, or by `multiprocessing`."""
    return process in KEPT or any(each in command(process) for each in SERVANTS)


def left(before: State) -> list[str]:
    """Say what is there that was not there *before*, and put the collector right."""
    found = _collector(before)
    if before.log_level != LOG.level:
        found.append(f"the level of the log, which is {LOG.level}")
        LOG.setLevel(before.log_level)
    more = _more(before, now())
    if more:
        gc.collect()
        deadline = time.monotonic() + ENDING_S
        while (more := _more(before, now())) and time.monotonic() < deadline:
            time.sleep(0.01)
        gc.freeze()
    return found + more


def drop(before: State) -> list[str]:
    """Let go now of what a test may leave behind, without a warning in the next one; say what no test may leave."""
    found = _collector(before)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
        gc.freeze()
    return found


def _collector(before: State) -> list[str]:
    """Say that the collector is off where it was on *before*, and put it right."""
    if gc.isenabled() or not before.collects:
        return []
    gc.enable()
    return [COLLECTOR]


def _more(before: State, after: State) -> list[str]:
    processes = [each for each in sorted(after.children - before.children) if not is_servant(each)]
    return [
        *(f"thread {each.name!r}" for each in after.threads - before.threads),
        *(f"open file {path}" for path in sorted(filter(None, map(path_of, after.descriptors - before.descriptors)))),
        *(f"process {each} ({command(each)})" for each in processes),
    ]


def command(process: str) -> str:
    """Return the command line of a process."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:100].strip()
    except OSError:
        return "gone"
