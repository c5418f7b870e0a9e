"""Batches of a reader that bring nothing new: it is on its way to the position that is wanted, or stands still.

A reader is to begin at the id that it is opened at; one that begins before it is borne, as what is known is left out.
"""

from __future__ import annotations

from reliable_rx.operators.contract.arguments import cut

REPEATS_MAX = 10
"""So many batches in a row may have nothing new, and get no further than others: a reader finds its way."""


class Reread:
    """What a reader has given since the last new event, although it was known.

    >>> reread = Reread()
    >>> reread.met(0, 10, 25), reread.goes_on, reread.met(0, 10, 25), reread.goes_on
    (None, True, None, False)
    """

    __slots__ = ("behind", "first", "goes_on", "last_end", "repeats")

    def __init__(self) -> None:
        self.repeats = 0
        """How many of these batches in a row got no further than others."""
        self.behind = -1
        """How far they got."""
        self.first = self.last_end = 0
        self.goes_on = False
        """Whether the last one got further, so that more can be had at once."""

    def over(self, *, goes_on: bool = False) -> None:
        """Note that there is something new, or (*goes_on*) only ids that hold nothing, and more at once."""
        self.repeats, self.behind, self.goes_on = 0, -1, goes_on

    def met(self, first: int, end: int, position: int) -> None:
        """Note a batch of ids from *first* on, before *end*, of which none is new where *position* is wanted."""
        self.goes_on = self.behind < end <= position != first
        if first < end:
            self.repeats = self.repeats + 1 if end < position and not self.goes_on else 0
            self.first, self.last_end = first, end
        self.behind = max(self.behind, end)

    def stands_still(self, partition: str, position: int) -> str:
        """Say that the reader of *partition* gives again and again what it has given; nothing if it does not."""
        if self.repeats < REPEATS_MAX:
            return ""
        return (
            f"the reader of partition {cut(partition)} gives ids {self.first:,} to {self.last_end - 1:,} again and "
            f"again, where {position:,} is wanted: it is to go on behind what it has returned"
        )
