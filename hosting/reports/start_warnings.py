"""What a start has to say besides its figures: what was given up, passed over, or is to be looked at.

The list is `QueryEvaluator.warnings`. Most of it is an incident until the next start. What is over with the start
itself is said once, through the log, and is no trouble afterwards.
"""

from __future__ import annotations

from hosting.reports.incidents import Incidents
from hosting.reports.log import LOG


class StartWarnings(list[str]):
    """The warnings of one evaluator, in order."""

    def __init__(self, incidents: Incidents) -> None:
        super().__init__()
        self._incidents = incidents
        self._over: set[str] = set()

    def tell(self, message: str) -> None:
        """Say what is over with the start: an app whose data are others each time is no app in trouble."""
        LOG.warning("%s", self._incidents.placed(message))
        self.append(message)
        self._over.add(message)

    @property
    def lasting(self) -> list[str]:
        """Those that go on being true."""
        return [each for each in self if each not in self._over]
