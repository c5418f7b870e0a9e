"""What is left of a partition where nothing happens: its position, a reader that listens, and the next timer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from hosting.edges.closing import close_all
from hosting.sources.polling import Pace
from reliable_rx.reliable import Reader, Source, Waking

LOOK_S_MAX = 0.5


class Sleeper:
    """Listens at *places* (source and position by partition). Something also stirs when *timer_s* are over."""

    __slots__ = ("_due", "_pace", "_readers")

    def __init__(
        self, places: Mapping[tuple[str, str], tuple[Source, int]], *, wake: Callable[[], None], timer_s: float | None
    ) -> None:
        self._due = None if timer_s is None else time.monotonic() + timer_s
        self._pace = Pace(most_s=LOOK_S_MAX)
        self._readers: list[Reader] = []
        for (_, partition), (source, position) in places.items():
            reader = source.open(partition, position)
            self._readers.append(reader)
            if isinstance(reader, Waking):
                reader.on_available(wake)

    def stirs(self) -> bool:
        """Whether there is something to do. What is read to find out is read again by the evaluator that wakes up."""
        if self._due is not None and time.monotonic() >= self._due:
            return True
        for reader in self._readers:
            try:
                batch = reader.fetch(1)
            except FileNotFoundError:  # a file that is followed is away for a while
                continue
            except OSError:  # such as one that was replaced: the evaluator that wakes up fails, and tells it
                return True
            if batch.values or batch.rejected or batch.ended or batch.error is not None:
                return True
        return False

    def next_look_s(self) -> float | None:
        """How long to sleep on, unless woken. Who is not woken looks less and less often."""
        waits = [] if self._due is None else [max(0.0, self._due - time.monotonic())]
        if not all(isinstance(each, Waking) for each in self._readers):
            waits.append(self._pace.nothing())
        return min(waits, default=None)

    def close(self) -> None:
        """Stop listening."""
        close_all(*(reader.close for reader in self._readers))
