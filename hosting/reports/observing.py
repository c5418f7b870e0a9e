"""Looks that tell of queries and decide nothing: whatever one of them raises is told, and ends nothing.

They read functions and values of the user's, in whatever state a query has, for the sake of a warning. One that has met
what nobody thought of must not be the end of all queries.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from hosting.reports.incidents import Incidents
from reliable_rx.errors import described
from reliable_rx.interrupts import let_through

RAISES = False
"""Whether errors of looks are raised: where they are tested."""


def observe(incidents: Incidents, what: str, look: Callable[..., None], *args: Any) -> None:
    """Call *look*, which looks for *what*; tell of its error.

    >>> incidents = Incidents()
    >>> observe(incidents, "odd values", lambda: None)
    >>> incidents.open()
    ()
    """
    try:
        look(*args)
    except BaseException as error:
        let_through(error)
        if RAISES:
            raise
        message = f"it could not be looked for, by a fault of this library ({described(error)}); nothing depends on it"
        incidents.report("look", what, f"{message}; report it", error=error, level=logging.WARNING, once=True)
