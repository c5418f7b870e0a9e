"""A command that is killed in the midst of its changes, in a module that a new process reads quickly."""

from __future__ import annotations

import os

from cli_process import be

from hosting.partitioned.sqlite_registry import SqliteRegistry


def be_cut(command: list[str]) -> None:
    """Be a command that is killed when it is about to change the group's document for the n-th time."""
    left, swap = [int(command[0])], SqliteRegistry.swap

    def cut(registry: SqliteRegistry, version: int, document: bytes, *, notice: bool) -> bool:
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)
        return swap(registry, version, document, notice=notice)

    SqliteRegistry.swap = cut  # type: ignore[assignment,method-assign]
    be(command[1:])
