"""One line that says how far a run is: drawn over on a terminal, written now and then elsewhere."""

from __future__ import annotations

import time
from datetime import datetime

from hosting.cli.terminal import is_terminal, redraw, say
from hosting.demo.queries import NEW_YORK

BAR = 40
LINE_S = 5.0
DRAW_S = 0.1


class Progress:
    """A run on its way through *total* events, with a mark where it was killed."""

    def __init__(self, title: str, *, total: int) -> None:
        self.title = title
        self.total = max(1, total)
        self.live = is_terminal()
        self.shown_at = 0.0 if self.live else time.monotonic()
        self.marks: list[int] = []
        self.line = ""

    def __enter__(self) -> Progress:
        say(self.title)
        return self

    def __exit__(self, *error: object) -> None:
        if self.live and self.line:
            redraw(self.line, end=True)

    def mark(self, position: int) -> None:
        """A kill has happened here."""
        self.marks.append(position)
        if not self.live:
            say(f"  kill -9 after {position:,} events")

    def show(self, position: int, clock: float) -> None:
        """Draw how far it is, if it is time to."""
        now = time.monotonic()
        if now - self.shown_at < (DRAW_S if self.live else LINE_S) and position < self.total:
            return
        self.shown_at = now
        day = datetime.fromtimestamp(clock, NEW_YORK).strftime("%d %b") if clock else "starts"
        before, self.line = self.line, f"  {self.bar(position)} {position:>7,} events  {day}"
        if self.live:
            redraw(self.line)
        elif position < self.total and self.line != before:
            say(f"  {position:,} events, {day}")

    def bar(self, position: int) -> str:
        filled = min(BAR, position * BAR // self.total)
        places = {min(BAR - 1, mark * BAR // self.total) for mark in self.marks}
        return "".join("✗" if at in places else "█" if at < filled else "·" for at in range(BAR))
