"""Connections to PostgreSQL: few, shared by many, made when they are needed, and what their errors mean.

One connection serves one transaction at a time, so a thousand idle stores need none. Long transactions (checkpoints,
recoveries) may take all but a reserved few of the places, so that short ones (journals) never wait for them. What was
in flight when a connection was lost may still be done by the server; before anything else is asked, that backend is
ended and seen gone, so that whatever is repeated comes after it. What a session was told when it began (that the
database is read-only, a limit) holds for it until it ends; so whatever the server has failed is done again by a new
one. Rejected: psycopg_pool (threads of its own per pool, and while the server is away it waits where a caller wants to
be told), a connection per store.
"""

from __future__ import annotations

import os
import re
import secrets
import select
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from checkpoint.ownership import OwnProcess, keep_for_parent
from reliable_rx.errors import CheckpointRefused, LimitExceeded, StoreUnavailable

if TYPE_CHECKING:
    import psycopg

APPLICATION = "reliable_rx"
SERVER_MIN = 140_000
FENCED = "RRX01"
"""What `reliable_rx.fence` raises, as an SQLSTATE."""
# A peer that has vanished without a word is found within half a minute, by either side; the caller's DSN may differ.
_CLIENT = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
_SESSION = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "idle_in_transaction_session_timeout": "10s",
    "lock_timeout": "10s",
    "default_transaction_isolation": "read committed",
    "client_min_messages": "warning",
    "search_path": "reliable_rx",
}
_END_MS = 5_000
_END_LOST = """SELECT count(*) FROM (
    SELECT pg_terminate_backend(pid, %s) AS ended FROM pg_stat_activity WHERE application_name = ANY(%s)
) AS those WHERE NOT ended"""

_HIDDEN = "SELECT 1 FROM pg_namespace WHERE nspname = 'reliable_rx' AND NOT has_schema_privilege(oid, 'USAGE')"


@dataclass(eq=False)
class _Made:
    """One connection and the name that the server knows it by."""

    name: str
    connection: psycopg.Connection[Any]
    is_over: bool = False
    """Whether it is not to be used again, though it could be."""


class Connections:
    """At most *connections_max* connections to the database *dsn*, each for one user at a time.

    *prepare* is run once, on the first one. Methods may be called from any thread.
    """

    def __init__(
        self,
        dsn: str,
        *,
        connections_max: int = 4,
        wait_s: float = 30.0,
        prepare: Callable[[psycopg.Connection[Any]], None] | None = None,
    ) -> None:
        if connections_max < 2:
            raise ValueError(f"connections_max={connections_max}: two are the least, so that one is left for journals")
        self._settings, self.where = _settings(dsn)
        self._wait_s, self._prepare = wait_s, prepare
        self._places = threading.BoundedSemaphore(connections_max)
        self._long_places = threading.BoundedSemaphore(connections_max // 2)
        self._lock = threading.Lock()
        self._idle: list[_Made] = []
        self._lost: list[str] = []
        self._ending, self._preparing = threading.Lock(), threading.Lock()
        self._closed = False
        self._process = OwnProcess(self.where)

    @contextmanager
    def use(self, *, long: bool = False) -> Iterator[psycopg.Connection[Any]]:
        """Give a connection in autocommit mode; *long* if it may be kept for longer than a moment.

        *Raises* `StoreUnavailable` if there is none to be had, or if the server ends it meanwhile.
        """
        self._process.check()
        with self._place(self._long_places if long else None), self._place(self._places), translated(self.where):
            self._end_lost()
            made = self._take()
            try:
                with translated(self.where):
                    yield made.connection
            except StoreUnavailable:
                self._begin_anew(made)
                raise
            except CheckpointRefused as error:
                self._check_rights(made, error)
                raise
            finally:
                self._put_back(made)

    @contextmanager
    def transaction(self, *, long: bool = False) -> Iterator[psycopg.Connection[Any]]:
        """Give a connection inside a transaction that is committed durably at the end, or rolled back."""
        with self.use(long=long) as connection, connection.transaction():
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[psycopg.Connection[Any]]:
        """Give a connection that sees one committed state for as long as that takes."""
        with self.transaction(long=True) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = '10min'")
            yield connection

    def dedicated(self) -> psycopg.Connection[Any]:
        """Make a connection beside the others, for its caller to keep and to close."""
        self._process.check()
        with translated(self.where):
            return self._connect().connection

    def is_alive(self, connection: psycopg.Connection[Any]) -> bool:
        """Whether the server has said nothing unasked: to an idle connection it says only that it is over."""
        poll = select.poll()
        if connection.closed:
            return False
        poll.register(connection.fileno(), select.POLLIN)
        return not poll.poll(0)

    def translated(self) -> AbstractContextManager[None]:
        """Raise what a caller can act on instead of what PostgreSQL says."""
        return translated(self.where)

    def close(self) -> None:
        """Close what is idle; what is in use is closed when it comes back. Doing it twice is harmless."""
        if not self._process.is_this:
            return
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for made in idle:
            made.connection.close()

    @contextmanager
    def _place(self, places: threading.BoundedSemaphore | None) -> Iterator[None]:
        if places is None:
            yield
            return
        if not places.acquire(timeout=self._wait_s):
            message = f"{self.where}: no connection was free for {self._wait_s:g} s; allow more of them"
            raise StoreUnavailable(message, where=self.where)
        try:
            yield
        finally:
            places.release()

    def _take(self) -> _Made:
        while True:
            with self._lock:
                if self._closed:
                    raise StoreUnavailable(f"{self.where}: this is closed; open it again", where=self.where)
                made = self._idle.pop() if self._idle else None
            if made is None:
                return self._connect()
            if self.is_alive(made.connection):
                return made
            made.connection.close()

    def _begin_anew(self, made: _Made) -> None:
        """Have what the server has failed in *made* asked by new sessions: those that wait are as old."""
        made.is_over = True
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each.connection.close()

    def _check_rights(self, made: _Made, error: CheckpointRefused) -> None:
        """*Raises* `StoreUnavailable` if what is missing may not be seen: to who may not, a table is not there."""
        with translated(self.where):
            if not made.connection.closed and made.connection.execute(_HIDDEN).fetchall():
                self._begin_anew(made)
                what = "this role may not use the schema reliable_rx; GRANT USAGE ON SCHEMA reliable_rx to it"
                raise StoreUnavailable(f"{self.where}: {what}, and it goes on", where=self.where) from error

    def _put_back(self, made: _Made) -> None:
        from psycopg.pq import TransactionStatus

        connection = made.connection
        well = not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE
        with self._lock:
            if well and not self._closed and not made.is_over:
                self._idle.append(made)
                return
            if not well:
                self._lost.append(made.name)
        connection.close()

    def _end_lost(self) -> None:
        """See to it that the backends of lost connections are gone."""
        with self._ending:
            with self._lock:
                lost = list(self._lost)
            if not lost:
                return
            made = self._take()
            try:
                ((left,),) = made.connection.execute(_END_LOST, (_END_MS, lost)).fetchall()
            finally:
                self._put_back(made)
            if left:
                message = f"{self.where}: what was lost in flight is still being done there; ask again soon"
                raise StoreUnavailable(message, where=self.where)
            with self._lock:
                self._lost = [name for name in self._lost if name not in lost]

    def _connect(self) -> _Made:
        import psycopg

        name = f"{APPLICATION} {secrets.token_hex(8)}"
        connection = psycopg.connect(**self._settings, application_name=name, autocommit=True)
        try:
            _set_up(connection, self.where)
            with self._preparing:
                if self._prepare is not None:
                    self._prepare(connection)
                    self._prepare = None
        except BaseException:
            connection.close()
            raise
        _OPEN.add(connection)
        return _Made(name, connection)


_OPEN: weakref.WeakSet[psycopg.Connection[Any]] = weakref.WeakSet()


def _after_fork() -> None:
    """Let go of the parent's sockets: a child that keeps one open keeps the server from seeing that its parent died.

    In their place stand descriptors of nothing, which may be written to: what finalises a connection says good-bye.
    """
    for connection in list(_OPEN):
        if not connection.closed:
            nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(nothing, connection.fileno(), inheritable=False)
            os.close(nothing)
        keep_for_parent(connection)
    _OPEN.clear()


os.register_at_fork(after_in_child=_after_fork)


def _settings(dsn: str) -> tuple[Mapping[str, Any], str]:
    """Return what to connect with, and how people name it: without the password."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        given = conninfo_to_dict(dsn)
    except ProgrammingError as error:
        raise ValueError(f"this is no address of a PostgreSQL database: {error}".strip()) from None
    host, port = given.get("host") or "local", given.get("port") or 5432
    given.pop("application_name", None)
    return {**_CLIENT, **given}, f"postgresql://{host}:{port}/{given.get('dbname') or ''}"


def without_password(dsn: str) -> str | None:
    """Return an address without the passwords in it; None if it is no URI.

    >>> without_password("postgresql://me:a?b@here:5432/db?sslmode=require&password=secret")
    'postgresql://me@here:5432/db?sslmode=require'
    """
    found = re.fullmatch(r"(\w+://)(?:([^@/]*)@)?([^?]*)(?:\?(.*))?", dsn, re.DOTALL)
    if found is None:
        return None
    scheme, user, place, query = found.groups(default="")
    user = f"{user.partition(':')[0]}@" if user else ""
    kept = "&".join(each for each in query.split("&") if not each.startswith(("password=", "sslpassword=")))
    return f"{scheme}{user}{place}{'?' if kept else ''}{kept}"


def _set_up(connection: psycopg.Connection[Any], where: str) -> None:
    version = connection.info.server_version
    if version < SERVER_MIN:
        what = f"PostgreSQL {version // 10_000} is too old; {SERVER_MIN // 10_000} is the least"
        raise CheckpointRefused(f"{where}: {what}", what=what, where=where)
    if connection.info.parameter_status("server_encoding") != "UTF8":
        what = "the encoding of this database is not UTF8; make one whose is"
        raise CheckpointRefused(f"{where}: {what}", what=what, where=where)
    sql = ", ".join(["set_config(%s, %s, false)"] * len(_SESSION))
    connection.execute(f"SELECT {sql}".encode(), [word for pair in _SESSION.items() for word in pair])
    # Whoever has it off for other uses gets durable commits here all the same.
    sql = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    connection.execute(sql)


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Raise what a caller can act on instead of what PostgreSQL says about *where*."""
    import psycopg

    try:
        yield
    except psycopg.DataError as error:
        raise ValueError(f"{where}: {_said(error)}") from error
    except psycopg.Error as error:
        if error.sqlstate == FENCED:
            raise
        raise _meaning(error, where) from error


def _meaning(error: psycopg.Error, where: str) -> Exception:
    said, state = _said(error), error.sqlstate or ""
    if state == "54000":
        return LimitExceeded(f"{where}: {said}; use a shorter name", path=where, limit="PostgreSQL", most=None)
    if state.startswith("XX0") and state != "XX000":
        return CheckpointRefused(f"{where}: {said}", what=said, where=where)
    if state in ("42P01", "42P07", "3F000", "42883"):
        what = f"{said}; the schema is not, or no longer, what was made here: restore it from a back-up"
        return CheckpointRefused(f"{where}: {what}", what=what, where=where)
    if _is_of_the_server(error, state):
        return StoreUnavailable(f"{where}: {said}; ask again when the server is well", where=where)
    return error


def _is_of_the_server(error: psycopg.Error, state: str) -> bool:
    """Whether it is the server or the way there that failed, or a right that is missing, rather than our SQL."""
    import psycopg

    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) or state in ("25P03", "25006", "42501")


def _said(error: Exception) -> str:
    return " ".join(str(error).split())
