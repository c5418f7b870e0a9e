"""What nests deeply is parsed on a stack of its own, so that it is read the same however deep its caller is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def on_own_stack(action: Callable[[], Any]) -> Any:
    """Return what *action* returns on an empty stack. *Raises* its `ValueError`, also for what nests too deeply."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(action())
        except RecursionError:
            found.append(ValueError("it is nested too deeply"))
        except ValueError as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if isinstance(found[0], ValueError):
        raise found[0]
    return found[0]
