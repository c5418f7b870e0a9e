"""What a source holds may be anything: it comes out as it is, is rejected, or is refused in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from hosting import GeneratorSource, ListSource, SharedSource
from hosting.sources.polling import PolledSource, Want
from reliable_rx.reliable import Batch, Reader, Source
from reliable_rx.testing import check_source

HOLDING: dict[str, Callable[[Sequence[Any]], Source]] = {
    "a list": ListSource,
    "made": lambda values: GeneratorSource(lambda i, _: values[i], count=len(values)),
    "pulled": lambda values: PolledSource(ListSource(values), Want(count_min=2)),
    "shared": lambda values: SharedSource(ListSource(values), events_max=64),
}


@pytest.mark.parametrize("name", HOLDING)
def test_sources_give_nasty_values_as_they_are(name: str) -> None:
    """Each nasty value of the kit between two others, in every source that is given values and no bytes."""
    check_source(lambda: HOLDING[name]([1, 2, 3]), positions_max=2, holding=HOLDING[name])


class Changing(ListSource):
    """Gives the texts of what it holds."""

    def open(self, partition: str, at: int) -> Reader:
        reader = super().open(partition, at)
        fetch = reader.fetch

        def fetched(count_max: int) -> Batch:
            batch = fetch(count_max)
            return replace(batch, values=[each if type(each) is int else str(type(each)) for each in batch.values])

        reader.fetch = fetched  # type: ignore[method-assign]
        return reader


def test_a_source_that_changes_values_is_found_out() -> None:
    """The suite names the value, and says what it claims."""
    with pytest.raises(AssertionError, match="NaN: the value at 1 is given as it is"):
        check_source(lambda: Changing([1, 2, 3]), positions_max=2, holding=Changing)
