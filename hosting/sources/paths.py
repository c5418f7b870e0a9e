"""Which files a source reads: paths, and patterns whose matches are looked at one by one.

A path that is named must be a file. A pattern finds what it finds: a match that cannot be read (a folder, a pipe, a
link to nothing, a compressed file without a byte) is left out, and told of, so that it neither stops the others nor is
passed over in silence. So is a name that no partition can have, unless the source is to fail at what it cannot read.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from hosting.sources.lines import not_a_file
from reliable_rx.errors import SourceFailed, printable
from reliable_rx.names import check_name

COMPRESSED = (".gz", ".zip")
LOOKED_AT_MAX = 64
LOOK_S = 1.0
NAMED_MAX = 5
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def sizes_of(paths: Sequence[Path]) -> list[int]:
    """Return how many bytes *paths* have; of one that is not there, 0."""
    return [path.stat().st_size if path.is_file() else 0 for path in paths]


class Found:
    """The files of *paths* in order, and in words what was left out; *names_matter* where each names a partition."""

    def __init__(self, paths: Paths, *, fails: bool, names_matter: bool) -> None:
        self.left_out: list[str] = []
        self._checks_names = names_matter and not fails
        given = [os.fspath(one) for one in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
        self.paths = tuple(path for one in given for path in self._expand(one))
        self._wanted = tuple(
            glob.escape(os.path.realpath(one)) if os.path.isfile(one) else os.path.realpath(one) for one in given
        )
        if not self.paths:
            raise ValueError("a file source needs at least one path")

    def finds(self, path: str) -> bool:
        """Whether *path*, which need not be there, is or would be one of these files."""
        real = os.path.realpath(path)
        parts, there = Path(real).parts, map(os.path.realpath, self.paths)
        return real in there or any(is_match(parts, Path(one).parts) for one in self._wanted)

    def _expand(self, path: str) -> list[Path]:
        if os.path.isfile(path):
            return [Path(path).absolute()]
        if os.path.exists(path):
            raise SourceFailed(f"{path} {not_a_file(path)}", source=path)
        before = len(self.left_out)
        matches = [
            Path(match).absolute() for match in sorted(glob.glob(path, recursive=True)) if self._is_fit(match, path)
        ]
        if not matches:
            what = "no file matches" if glob.has_magic(path) else "there is no file"
            found = f", only {told(self.left_out[before:])}" if len(self.left_out) > before else ""
            raise SourceFailed(f"{what} {path}{found} (looked from {os.getcwd()}); check the path", source=path)
        return matches

    def _is_fit(self, match: str, pattern: str) -> bool:
        why = self._unfit(match)
        if why and not (os.path.isdir(match) and "**" in pattern):  # that one is meant to go through folders
            self.left_out.append(f"{printable(match)} ({why})")
        return not why

    def _unfit(self, match: str) -> str:
        """Say why *match* is not read, if so."""
        if os.path.isdir(match):
            return "a folder"
        if not os.path.exists(match):
            return "a link to nothing"
        if not os.path.isfile(match):
            return "a pipe, a socket or a device"
        if match.endswith(COMPRESSED) and not os.path.getsize(match):
            return "compressed and without a byte: was it cut short?"
        if self._checks_names:
            try:
                check_name("partition", os.path.basename(match))
            except ValueError:
                return "its name cannot be stored: rename it"
        return ""


def is_match(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a path is what `glob` finds, part by part.

    >>> is_match(("data", "a", "b.csv"), ("data", "**", "*.csv"))
    True
    """
    if not pattern:
        return not parts
    if pattern[0] == "**":
        below = next((place for place, part in enumerate(parts) if part.startswith(".")), len(parts))
        return any(is_match(parts[skipped:], pattern[1:]) for skipped in range(below + 1))
    if not parts or (parts[0].startswith(".") and not pattern[0].startswith(".")):
        return False
    is_same = parts[0] == pattern[0] or fnmatchcase(parts[0], pattern[0])
    return is_same and is_match(parts[1:], pattern[1:])


def told(left_out: Sequence[str]) -> str:
    """Name the first of what was left out."""
    more = f" and {len(left_out) - NAMED_MAX:,} more" if len(left_out) > NAMED_MAX else ""
    return f"{', '.join(left_out[:NAMED_MAX])}{more}"


class Presence:
    """Whether files that are followed are still there; asked often, it looks once a second."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths, self._trouble = paths[:LOOKED_AT_MAX], ""
        self._look_at = 0.0

    def trouble(self) -> str:
        """Say which file has been moved or deleted, empty if none has."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            self._trouble = next((_gone(path) for path in self._paths if not os.path.exists(path)), "")
        return self._trouble


def _gone(path: Path) -> str:
    what = f"{printable(str(path))} is followed and is not there: it was moved, rotated or deleted"
    return f"{what}. It waits for that file to be put back, as another one in its place would have other records"
