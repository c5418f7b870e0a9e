"""Partitions that a source has only since it has ended: they stay unread until a query begins that reads the source.

Their queries have been told that it has ended, so nobody would see what is in them: read at once, as tomorrow's file of
a daily batch was, it would be gone without a word. So their positions stay as they are, an incident names them, and
they appear right behind the turn that creates a query which reads their source. Before that one another says that the
source may go on (`hosting.engine.expecting`). Which they are is no state: a start finds the same. If a query is new or
edited at a start, that says nothing of those that have ended and would miss them: then they stay unread until a
`restart` names for whom they are, several together in one group of turns. One that is edited and would read nothing
else stays as it ended until then: it would complete at once, with the result of an empty day.

Rejected: reading them at once (nobody gets what is in them), running the queries that have ended again by ourselves
(they would begin without state, and whoever reads their streams was told of the end), and refusing the start (the other
sources have nothing to do with it).
"""

from __future__ import annotations

from collections.abc import Callable

AFTER_THE_END = "after the end"
"""The kind of the incidents that name such partitions."""
NAMED_MAX, RESTARTED_MAX = 3, 50
Key = tuple[str, str]
EndOf = Callable[[str], tuple[Exception | None] | None]
"""With which error, if any, a source has ended for its queries; None if it goes on."""


class LatePartitions:
    """The partitions of an intake that have come when their source had ended."""

    def __init__(self) -> None:
        self.kept: dict[Key, None] = {}
        self.end_of: EndOf = lambda source: None
        self.untold: set[str] = set()
        """Sources of which it is yet to be told that they have such, or no longer have."""
        self.shut: set[str] = set()
        """Those of which none is let in by what a start creates."""

    def sift(self, unknown: dict[Key, None]) -> None:
        """Keep of the *unknown* partitions those of sources that have ended; give back those of one that goes on."""
        for key in [*self.kept, *unknown]:
            has_ended, is_kept = self.end_of(key[0]) is not None, key in self.kept
            if has_ended == is_kept:
                continue
            before, behind = (unknown, self.kept) if has_ended else (self.kept, unknown)
            del before[key]
            behind[key] = None
            self.untold.add(key[0])

    def give_back(self, source: str, unknown: dict[Key, None]) -> None:
        """Make those of *source* unknown again: the next turns tell of them."""
        for key in [key for key in self.kept if key[0] == source]:
            del self.kept[key]
            unknown[key] = None
        self.untold.add(source)

    def forget(self, key: Key) -> None:
        """Let one that is read now wait no more, if it did."""
        if key in self.kept:
            del self.kept[key]
            self.untold.add(key[0])

    @property
    def sources(self) -> set[str]:
        """Name the sources that have such."""
        return {source for source, _ in self.kept}

    def names_of(self, source: str) -> list[str]:
        """Name those of *source*."""
        return [name for each, name in self.kept if each == source]


def shown_some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return f"{', '.join(map(repr, names[:NAMED_MAX]))}{more}"
