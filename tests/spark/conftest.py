"""One Spark session for all tests here: two cores, two tries per task, and as little else as Spark can be told.

With two workers of pytest's, one has the session and the other what starts processes of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from spark_world import start_spark


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark/" in item.path.as_posix():
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            item.add_marker(pytest.mark.xdist_group("session" if has_session(item) else "processes"))


def has_session(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Start a session, once."""
    pytest.importorskip("pyspark")
    session = start_spark()
    yield session
    session.stop()
