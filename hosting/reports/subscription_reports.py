"""Reports of subscriptions that fail, retry, skip or have stopped: with who has the stream, if that is a host.

So an operator finds a failing consumer of an evaluator's stream in the evaluator's statistics and `status`, beside the
stream whose readers it makes wait. What belongs to no host is told in the register of the deliveries themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from hosting.engine.blame import blamed
from hosting.reports.incidents import Incidents
from hosting.subscriptions.registry import Offer
from hosting.subscriptions.subscription import Report

KIND, SKIPS = "subscriber", "subscriber skips"


class SubscriptionReports:
    """Reports of the subscribers of all streams that are offered."""

    def __init__(self, offers: Mapping[str, Offer]) -> None:
        self.own = Incidents()
        self._offers = offers

    def of(self, stream: str, name: str) -> Report:
        """Return what the subscription *name* of *stream* reports to."""
        return partial(self._tell, stream, name)

    def forget(self, stream: str, name: str) -> None:
        """There is no such subscription any more."""
        for kind in (KIND, SKIPS):
            self._tell(stream, name, kind, None)

    def guarded(self, stream: str, name: str, act: Callable[[], Any]) -> None:
        """Apply the rule *name* to *stream*; what it or its consumer's maker raises is told."""
        try:
            act()
        except BaseException as raised:
            message = "its rule raised, and nothing is delivered; mend it and offer the stream again"
            self._tell(stream, name, KIND, message, error=blamed(raised), level=logging.ERROR)

    def unread(self, partition: str, raised: BaseException) -> None:
        """A source that is followed cannot be read."""
        message = "it cannot be read and gives no new streams; unfollow it, and follow it again when it is mended"
        self.own.report(KIND, f"partition {partition}", message, error=blamed(raised))

    def _tell(
        self,
        stream: str,
        name: str,
        kind: str,
        message: str | None,
        *,
        error: Exception | None = None,
        level: int = logging.WARNING,
    ) -> None:
        offer, subject = self._offers.get(stream), f"{stream}/{name}"
        host = self.own if offer is None or offer.incidents is None else offer.incidents
        if message is not None:
            host.report(kind, subject, message, error=error, level=level)
            return
        for each in (host, self.own):
            each.resolve(kind, subject)
