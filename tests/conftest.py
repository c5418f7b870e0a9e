"""How Hypothesis runs here (new examples every time, and whoever finds one prints what repeats it), and PostgreSQL.

Hypothesis itself draws the same examples for ever where it sees that it runs unattended; then a bug that the first
examples miss is never found.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from postgres_server import PostgresServer, find

settings.register_profile("ci", derandomize=False, print_blob=True, deadline=None)
settings.load_profile("ci")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server for the whole run, which does not sync: what it has acknowledged it loses only with the machine."""
    yield from _server(durable=False)


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
