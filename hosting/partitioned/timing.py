"""The times of a group, in one place: they only make sense together.

They are kept in the group's document, so that all nodes go by the same ones whatever they were started with; the
first node to write a document decides. Nothing here is a moment: only spans, which every node measures on its own
clock, so that clocks may differ and jump (see `hosting.partitioned.watch`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a group waits for what.

    A member that was not heard of for *session_s* is expired; it stops by itself at two thirds of that. A member that
    was asked to give a partition back has *closing_s*. A group that was empty waits *gather_s* for more members before
    it assigns anything, so that a mass start does not move every partition once per member.
    """

    session_s: float = 10.0
    closing_s: float = 30.0
    gather_s: float = 3.0

    def __post_init__(self) -> None:
        if not (self.session_s > 0 and self.closing_s > 0 and self.gather_s >= 0):
            raise ValueError(f"{self}: a session and a closing deadline are longer than nothing")

    @property
    def beat_s(self) -> float:
        """How often a member beats when nothing happens."""
        return self.session_s / 3

    @property
    def look_s(self) -> float:
        """How often a node looks whether somebody has died."""
        return self.session_s / 6

    @property
    def alive_s(self) -> float:
        """How long after an answered beat a member may trust its leases: less than the others wait."""
        return self.session_s * 2 / 3
