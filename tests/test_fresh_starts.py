"""Fresh starts of edited instances: nobody outside hears them, and what they fail with is kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reliable_rx.runtime.merging import Unheard, unheard


def test_nothing_is_heard_of_a_fresh_start() -> None:
    """Values are left out and an end is kept; whatever else is asked is what the reader says."""
    heard, error = list[Any](), ValueError("as the test wants")
    sink = SimpleNamespace(op="its operator", path="/where", inner_deliver=heard.append, inner_finish=heard.append)
    instance: Any = SimpleNamespace(sink=sink)
    with unheard(instance) as muted:
        assert type(muted) is Unheard and instance.sink is muted and not muted.passes
        assert (instance.sink.op, instance.sink.path) == ("its operator", "/where")
        instance.sink.inner_deliver(instance, [1])
        instance.sink.inner_finish(instance, error)
        assert muted.error is error
    assert instance.sink is sink and heard == []


def test_a_reader_that_was_let_go_meanwhile_stays_so() -> None:
    """Also if the fresh start has raised."""
    instance: Any = SimpleNamespace(sink="reader")
    with pytest.raises(KeyError), unheard(instance):
        instance.sink = None
        raise KeyError
    assert instance.sink is None
