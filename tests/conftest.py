"""What tests draw, lanes, PostgreSQL.

All draws of a test are the same in every run, so that a commit is refused for what it changed. The night has others:
`--hypothesis-seed` seeds both Hypothesis and `random`, and the same seed repeats them. No run is judged by how quickly
examples are made: that is the machine's. A failure is made smaller for some seconds only: left to itself, Hypothesis
goes on for more than five minutes where an example has many steps, and the test is killed before it has said what it
found.
"""

from __future__ import annotations

import gc
import itertools
import random
import re
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import leftovers
import lines_said
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import engine
from lanes import (
    ALWAYS,
    AT_EACH_COMMIT,
    COMMIT_ROWS,
    COMMIT_SHARE,
    FAST_ROWS,
    SHARE,
    Lane,
    is_of_part,
    part_of,
    spread_rows,
)
from other_pythons import Pythons, played_pythons
from postgres_server import PostgresServer, find

from hosting.reports import observing

SPARK = Path(__file__).parent / "spark"
SHRINKING_S = 20
NIGHT_S = 1800
FOLDERS = itertools.count()
PHASES = [phase for phase in Phase if phase is not Phase.explain]
settings.register_profile(
    "ci",
    derandomize=True,
    print_blob=True,
    deadline=None,
    phases=PHASES,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci")
observing.RAISES = True
engine.MAX_SHRINKING_SECONDS = SHRINKING_S  # there is no setting for it, and its warning always says five minutes


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rest", action="store_true", help="what the fast lane leaves out of its tests")
    parser.addoption("--part", type=part_of, help="K/N: the part K, from 0 on, of N parts of the rows that are chosen")


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # what a script begins in its background ignores Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    Lane.fast_alone = config.option.markexpr == "not slow"
    Lane.commit_alone = config.option.markexpr in ("commit", AT_EACH_COMMIT)
    if Lane.commit_alone:
        config.option.markexpr = AT_EACH_COMMIT
    if config.option.hypothesis_seed is not None:
        settings.register_profile("night", settings.get_profile("ci"), derandomize=False)
        settings.load_profile("night")
    if Lane.fast_alone:
        settings.register_profile("fast", settings(), max_examples=100 // SHARE)
        settings.load_profile("fast")
    if Lane.commit_alone:
        settings.register_profile("commit", settings(), max_examples=100 // COMMIT_SHARE)
        settings.load_profile("commit")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Do not read what is slow as a whole where only the fast lane runs: it would load Spark."""
    return True if Lane.fast_alone and collection_path == SPARK else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collector away from all that is made while tests are collected: it stays until the run ends.

    To go over it takes a fifth of a second each time, as often as tests and pytest itself ask for a collection.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


def marks_of(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give half an hour to each test that only a night plays: thousands of draws take longer than others may.

    Of the fast lane as a whole one row of each test is played, so that it is over in two minutes, and with ``--rest``
    all others; of what is for each commit two, and what no commit leaves out; of files that are named, all. Of all this
    ``--part`` plays a part: what is too long for one run is played by several.
    """
    if (Lane.fast_alone or Lane.commit_alone) and config.args == config.getini("testpaths"):
        of_lane = [each for each in items if Lane.fast_alone or {"commit", "night"} & marks_of(each) == {"commit"}]
        rows = spread_rows([each.nodeid for each in of_lane], FAST_ROWS if Lane.fast_alone else COMMIT_ROWS)
        rows |= {each.nodeid for each in items if Lane.commit_alone and ALWAYS.mark in each.own_markers}
        left_out = [each for each in items if (each.nodeid in rows) == config.option.rest]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [each for each in items if (each.nodeid in rows) != config.option.rest]
    if config.option.part is not None:
        others = [each for each in items if not is_of_part(each.nodeid, *config.option.part)]
        config.hook.pytest_deselected(items=others)
        items[:] = [each for each in items if is_of_part(each.nodeid, *config.option.part)]
    for item in items:
        marks = marks_of(item)
        if "slow" in marks and ("night" in marks or "commit" not in marks) and "timeout" not in marks:
            item.add_marker(pytest.mark.timeout(NIGHT_S))


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test leaves the collector off, a thread, an open file or a child process."""
    before = leftovers.now()
    yield
    left = (leftovers.drop if request.node.get_closest_marker("leaves") else leftovers.left)(before)
    if left:
        pytest.fail(f"the test has left behind: {'; '.join(left)}", pytrace=False)


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest) -> None:
    """Whatever draws from `random` draws by the test's name, and in the night by its seed as well."""
    random.seed(f"{request.config.option.hypothesis_seed} {request.node.nodeid}")


@pytest.fixture(autouse=True)
def lines_are_said(request: pytest.FixtureRequest) -> Iterator[None]:
    """No command writes what is several lines as one, or one of something in the plural."""
    with lines_said.overheard() as wrong:
        yield
    if wrong and not request.node.get_closest_marker("lines"):
        pytest.fail(f"the command line was to say {wrong[:3]}", pytrace=False)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder of the test's own; pytest's looks for a free number among those of all tests before."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    path = tmp_path_factory.getbasetemp() / f"{name}-{next(FOLDERS)}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def unshrunk() -> Iterator[None]:
    """Have Hypothesis look for a failure, and not make it small: that takes most of the time where one is planted."""
    before = settings.get_current_profile_name()
    settings.register_profile("unshrunk", phases=[Phase.generate], database=None)
    settings.load_profile("unshrunk")
    yield
    settings.load_profile(before)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server for the whole run, which does not sync: what it has acknowledged it loses only with the machine."""
    for server in _server(durable=False):
        leftovers.KEPT |= leftovers.children()
        yield server


@pytest.fixture
def mortal_postgres() -> Iterator[PostgresServer]:
    """A server of the test's own that syncs what it commits, to be killed and started again."""
    yield from _server(durable=True)


def _server(*, durable: bool) -> Iterator[PostgresServer]:
    binaries = find()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed here (apt-get install postgresql)")
    server = PostgresServer(binaries, durable=durable)
    yield server
    server.remove()


@pytest.fixture
def interpreters() -> Iterator[Pythons]:
    with played_pythons() as pythons:
        yield pythons
