"""One Spark session for all tests here: two cores, two tries per task, and as little else as Spark can be told.

With two workers of pytest's, one has the session and the other what starts processes of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from spark_world import start_spark
from xdist.scheduler import LoadScopeScheduling

APART = ("test_spark_kill.py", "::test_order_is_kept_where_spark_keeps_none", "::test_a_signal_to_the_whole_group")


class OneSession(LoadScopeScheduling):
    """Gives one worker all that needs the session."""

    def _split_scope(self, nodeid: str) -> str:
        return "processes" if any(each in nodeid for each in APART) else "session"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSession:
    return OneSession(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark/" in item.path.as_posix():
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Start a session, once."""
    pytest.importorskip("pyspark")
    session = start_spark()
    yield session
    session.stop()
