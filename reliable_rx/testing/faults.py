"""Make the world fail on purpose: at named points of the code, and under the files it writes.

`arm` sets what `reliable_rx.failpoints.probe` does at a named place: raise, say that the disk is full, or kill the
process for real. `arm_from_environment` does it in a process that a test has started. `SimulatedDisk` is what a kill
cannot show: after a power loss unsynced writes may be there, missing, torn or zero, and so may each unsynced change
of the directory. `check_file_protocol` walks through all of these states. Rejected: patching functions by name (it
breaks with every refactoring).
"""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, combinations, count, product

from reliable_rx.failpoints import ARMED

Action = Callable[[], None]
State = dict[str, bytes]
"""What a directory holds after a crash: content by file name."""


@contextmanager
def arm(name: str, action: Action) -> Iterator[None]:
    """Do *action* at every ``probe(name)`` inside the ``with`` block.

    >>> from reliable_rx.failpoints import probe
    >>> with arm("journal.before_commit", raise_(OSError("no"))):
    ...     probe("journal.before_commit")
    Traceback (most recent call last):
    OSError: no
    """
    before = ARMED.get(name)
    ARMED[name] = action
    try:
        yield
    finally:
        if before is None:
            del ARMED[name]
        else:
            ARMED[name] = before


def kill() -> Action:
    """Kill this process with SIGKILL: no handler runs, nothing is flushed."""
    return lambda: os.kill(os.getpid(), signal.SIGKILL)


def stop() -> Action:
    """Stop this process with SIGSTOP, wherever it is and whatever it holds, until somebody sends it SIGCONT."""
    return lambda: os.kill(os.getpid(), signal.SIGSTOP)


def raise_(error: BaseException) -> Action:
    """Raise *error*."""

    def act() -> None:
        raise error.with_traceback(None)

    return act


def disk_full(*, by_sqlite: bool = True) -> Action:
    """Fail as a full disk does, in SQLite's words or in the system's."""
    if by_sqlite:
        return raise_(sqlite3.OperationalError("database or disk is full"))
    return raise_(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


def nth(n: int, action: Action) -> Action:
    """Do *action* on the *n*-th call only, counted from 1."""
    calls = count(1)
    return lambda: action() if next(calls) == n else None


_BY_NAME: dict[str, Callable[[], Action]] = {
    "kill": kill,
    "stop": stop,
    "disk_full": disk_full,
    "disk_full_os": lambda: disk_full(by_sqlite=False),
    "error": lambda: raise_(RuntimeError("an armed fault")),
}


def arm_from_environment(variable: str = "RELIABLE_RX_FAULTS") -> None:
    """Arm what *variable* says, for the rest of the process: ``journal.after_commit:kill@3,log.before_commit:error``.

    ``@n`` means the n-th time only. Actions: ``kill``, ``stop``, ``disk_full``, ``disk_full_os``, ``error``.
    *Raises* `ValueError` for any other word.
    """
    for fault in filter(None, os.environ.get(variable, "").split(",")):
        name, action = _parsed(fault.strip(), variable)
        ARMED[name] = action


def _parsed(fault: str, variable: str) -> tuple[str, Action]:
    name, colon, rest = fault.partition(":")
    word, at, number = rest.partition("@")
    if not (name and colon and word in _BY_NAME and (number.isdigit() if at else True)):
        raise ValueError(f"{variable}: {fault!r} is not name:action or name:action@n, action one of {sorted(_BY_NAME)}")
    action = _BY_NAME[word]()
    return name, nth(int(number), action) if at else action


class ProcessDied(BaseException):
    """Raised by `SimulatedDisk` where the process is to die; no handler for `Exception` may catch it."""


@dataclass(slots=True, eq=False)
class _File:
    """A file's content, and every content a power loss may leave, the newest last."""

    content: bytes = b""
    possible: list[bytes] = field(default_factory=lambda: [b""])

    def write(self, data: bytes) -> None:
        self.content = data
        torn = [data[:end] for end in (0, 1, len(data) // 2, len(data) - 1) if end < len(data)]
        self.possible += [*torn, bytes(len(data)), data]

    def sync(self) -> None:
        self.possible = [self.content]


class SimulatedDisk:
    """One directory on a disk that keeps only what was synced, and of the rest whatever it likes.

    It has the operations of `checkpoint.sqlite.files.Disk`. Syncing a file makes its content durable, not its name;
    syncing the directory makes the names durable, not the contents. Unsynced renames need not survive in order.

    >>> disk = SimulatedDisk({})
    >>> disk.write("a", b"x"); disk.sync("a")
    >>> disk.crash_states()
    [{}, {'a': b'x'}]
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._names = {name: _File(content, [content]) for name, content in files.items()}
        self._durable_names = dict(self._names)
        self._changes: list[dict[str, _File | None]] = []
        self.operations: list[str] = []
        self.on_operation: Callable[[], None] = lambda: None

    def read(self, name: str) -> bytes | None:
        file = self._names.get(name)
        return None if file is None else file.content

    def write(self, name: str, data: bytes) -> None:
        if name not in self._names:
            self._change({name: _File()})
        self._names[name].write(data)
        self._did(f"write {name}")

    def sync(self, name: str) -> None:
        self._names[name].sync()
        self._did(f"sync {name}")

    def rename(self, old: str, new: str) -> None:
        self._change({new: self._names[old], old: None})
        self._did(f"rename {old} {new}")

    def remove(self, name: str) -> None:
        self._change({name: None})
        self._did(f"remove {name}")

    def sync_directory(self) -> None:
        self._durable_names, self._changes = dict(self._names), []
        self._did("sync directory")

    def _change(self, change: dict[str, _File | None]) -> None:
        self._changes.append(change)
        self._names = _changed(self._names, change)

    def _did(self, operation: str) -> None:
        self.operations.append(operation)
        self.on_operation()

    def crash_states(self) -> list[State]:
        """Return every content of the directory that a power loss at this moment may leave."""
        states: dict[tuple[tuple[str, bytes], ...], State] = {}
        sizes = range(len(self._changes) + 1)
        for survived in chain.from_iterable(combinations(self._changes, size) for size in sizes):
            names = self._durable_names
            for change in survived:
                names = _changed(names, change)
            for contents in product(*(file.possible for file in names.values())):
                state = dict(zip(names, contents, strict=True))
                states[tuple(sorted(state.items()))] = state
        return list(states.values())


def _changed(names: dict[str, _File], change: Mapping[str, _File | None]) -> dict[str, _File]:
    after = {**names, **change}
    return {name: file for name, file in after.items() if file is not None}


Protocol = Callable[[SimulatedDisk], object]


def check_file_protocol(protocol: Protocol, *, name: str, before: Mapping[str, bytes] | None = None) -> int:
    """Check that *protocol* replaces or creates file *name* safely; return how many crash states were looked at.

    After a power loss at any moment *name* must be what it was or what it becomes; once *protocol* has returned, what
    it became; and *protocol* run again must get there from every such state, and after the process was merely killed.

    *Raises* `AssertionError` with the operations done so far and the state that condemns the protocol.
    """
    start = dict(before or {})
    looked_at = 0
    for state in [start, *_crashes(protocol, start, name)]:
        looked_at += len(_crashes(protocol, state, name)) + _check_killed(protocol, state, name)
    return looked_at


def _crashes(protocol: Protocol, start: State, name: str) -> list[State]:
    """Run *protocol*; return the states a power loss in the midst of it may leave, after checking them."""
    disk = SimulatedDisk(start)
    seen: list[tuple[str, State]] = []
    disk.on_operation = lambda: seen.extend((", ".join(disk.operations), state) for state in disk.crash_states())
    protocol(disk)
    allowed = (start.get(name), disk.read(name))
    for done, state in seen:
        if state.get(name) not in allowed:
            raise AssertionError(f"a power loss after [{done}] may leave {state}: {name} is neither old nor new")
    _check_done(disk, name)
    return [state for _, state in seen]


def _check_done(disk: SimulatedDisk, name: str) -> None:
    for state in disk.crash_states():
        if state.get(name) != disk.read(name):
            done = ", ".join(disk.operations)
            raise AssertionError(f"after [{done}] it is called done, but a power loss may still leave {state}")


def _check_killed(protocol: Protocol, start: State, name: str) -> int:
    """Kill the process after each operation and run *protocol* again on what the system still holds in memory."""
    for operations in count(1):
        disk = SimulatedDisk(start)

        def die(disk: SimulatedDisk = disk, operations: int = operations) -> None:
            if len(disk.operations) == operations:
                raise ProcessDied

        disk.on_operation = die
        try:
            protocol(disk)
        except ProcessDied:
            disk.on_operation = lambda: None
            protocol(disk)
            _check_done(disk, name)
        else:
            return operations
    raise AssertionError("unreachable")
