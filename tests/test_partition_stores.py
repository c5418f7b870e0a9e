"""A partition's store is for who holds its lease: which evaluators may start on a store, without any of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hosting.reports.partition_store import check_lease
from reliable_rx.errors import StoreOwned

STORES: dict[str, dict[str, Any]] = {
    "a program's": {"group": None, "name": "shop"},
    "leased": {"group": ("postgresql://here", "night"), "name": "night/orders/a"},
    "a partition's, opened as a program's": {
        "group": None,
        "name": "night/orders/a",
        "is_outside_lease": True,
        "address": ("postgresql://here", "rx"),
    },
}


@pytest.mark.parametrize("is_placed", [False, True], ids=["an app's evaluator", "a partition's evaluator"])
@pytest.mark.parametrize("store", STORES)
def test_who_may_start_on_a_store(store: str, is_placed: bool) -> None:
    """An app's evaluator on a program's store; a partition's one on a store that was opened with its lease."""
    opened: Any = SimpleNamespace(**STORES[store])
    if store == "a program's" or (store == "leased" and is_placed):
        check_lease(opened, is_placed=is_placed)
        return
    with pytest.raises(StoreOwned, match=r"partition of the group 'night'.*start its nodes with `reliable-rx node`"):
        check_lease(opened, is_placed=is_placed)
