"""What became of mutants, kept in a file as they are judged, so that a hunt which was stopped goes on.

That a mutant is noticed is taken over while its module is the same; that it survives, while the tests are the same too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock

from mutants import Mutant
from trees import files

BYTES = 8


@dataclass(frozen=True)
class Verdict:
    """*test* is the first that failed, None if none did, of so many *tests* that ran."""

    key: str
    module: str
    suite: str
    test: str | None
    tests: int
    seconds: float

    def __str__(self) -> str:
        word = "survives" if self.test is None else "noticed"
        return f"{word:9} {self.seconds:6.1f} s {self.tests:5} tests  {self.key}"


class Verdicts:
    """Those that were kept for the modules and tests of today."""

    def __init__(self, root: Path, kept: Path) -> None:
        self._root, self._kept, self._lock = root, kept, Lock()
        self.suite = digest(root / name for name in files("tests"))
        self._known: dict[str, Verdict] = {}
        for line in kept.read_text().splitlines() if kept.exists() else ():
            verdict = Verdict(**json.loads(line))
            self._known[verdict.key] = verdict

    def of(self, mutant: Mutant) -> Verdict | None:
        """Return what is known of *mutant*."""
        verdict = self._known.get(mutant.key)
        if verdict is None or verdict.module != self.module(mutant):
            return None
        return verdict if verdict.test is not None or verdict.suite == self.suite else None

    def add(self, mutant: Mutant, test: str | None, tests: int, seconds: float) -> Verdict:
        """Keep what became of *mutant*."""
        verdict = Verdict(mutant.key, self.module(mutant), self.suite, test, tests, seconds)
        with self._lock, self._kept.open("a") as file:
            file.write(json.dumps(asdict(verdict)) + "\n")
        return verdict

    def module(self, mutant: Mutant) -> str:
        return digest([self._root / mutant.path])


def digest(paths: Iterable[Path]) -> str:
    total = hashlib.blake2b(digest_size=BYTES)
    for path in paths:
        total.update(path.read_bytes())
    return total.hexdigest()
