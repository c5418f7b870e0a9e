"""One Spark session for all tests here: two cores, two tries per task, and as little else as Spark can be told.

With two workers of pytest's, one has the session and the other, one by one, what starts processes of its own, until the
first has nothing else to do either. That goes by names, and one that has gone stale would put a second session into the
first one's time; so it is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from spark_world import start_spark
from xdist.scheduler import LoadScopeScheduling

HERE = Path(__file__).parent
FILES = {path.name for path in HERE.glob("test_*.py")}
APART = (
    "test_spark_kill.py",
    "::test_order_is_kept_where_spark_keeps_none",
    "::test_a_signal_to_the_whole_group",
)
PAGES = "tests/test_docs.py"
LONG = ("test_spark_kill.py", "docs/tutorial/spark.md")
"""What is begun first, so that nobody waits for it at the end."""


class OneSession(LoadScopeScheduling):
    """Gives one worker all that needs the session."""

    def schedule(self) -> None:
        if self.collection is None:  # else it is called for a worker that takes another's place
            check_apart(self.config, next(iter(self.registered_collections.values())))
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if any(each in nodeid for each in (*APART, PAGES)) else "session"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSession:
    return OneSession(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not any(each in item.nodeid for each in LONG))
    ours = [item for item in items if HERE in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.spark)
        item.add_marker(pytest.mark.slow)
        item.add_marker(pytest.mark.filterwarnings("ignore"))
    if not hasattr(config, "workerinput"):  # what a worker raises nobody sees
        check_apart(config, [item.nodeid for item in ours])


def check_apart(config: pytest.Config, collected: Sequence[str]) -> None:
    """*Raises* `pytest.UsageError` for names that none of the tests has, if all of this directory are *collected*."""
    stale = [name for name in APART if not any(name in each for each in collected)]
    files = {each.partition("::")[0].rpartition("/")[2] for each in collected}
    some = config.option.keyword or "::" in "".join(config.args) or not files.issuperset(FILES)
    if stale and not some:
        raise pytest.UsageError(f"APART in {__file__} names {', '.join(stale)}, and no test is called that any more")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Start a session, once."""
    pytest.importorskip("pyspark")
    session = start_spark()
    yield session
    session.stop()
