"""A real PostgreSQL for tests: found, made in a folder of its own, started, stopped, killed.

The server is a child process of the tests, so that it can be killed like one. PostgreSQL does not run as root: there
it runs as another user, in a folder outside the one of pytest, which nobody else may enter.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

import psycopg

WAIT_S = 60.0
USERS = ("postgres", "nobody")
OPEN_TO_ALL = ("/tmp", "/dev/shm")
FAST = ("fsync=off", "full_page_writes=off")
SMALL = ("shared_buffers=16MB", "max_connections=100", "autovacuum=off")


def find() -> Path | None:
    """Return the folder with ``initdb`` and ``postgres`` of the newest PostgreSQL there is."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    on_path = shutil.which("initdb")
    folders = installed[::-1] + ([Path(on_path).resolve().parent] if on_path else [])
    return next((each for each in folders if (each / "initdb").exists() and (each / "postgres").exists()), None)


class PostgresServer:
    """One cluster on a free port of the loopback interface; *durable* says whether it syncs what it commits."""

    def __init__(self, binaries: Path, *, durable: bool) -> None:
        self._binaries, self._settings = binaries, (*SMALL, *(() if durable else FAST))
        usual = tempfile.gettempdir()
        self.folder = Path(tempfile.mkdtemp(prefix="rrx-pg-", dir=usual if usual in OPEN_TO_ALL else "/tmp"))
        self._user = None if os.getuid() else next(pwd.getpwnam(each) for each in USERS if _exists(each))
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self.port = _free_port()
        self.process: subprocess.Popen[bytes] | None = None
        arguments = ["--no-sync", "--auth=trust", "--username=rrx", "--encoding=UTF8", "--locale=C", "-k"]
        self._run("initdb", "-D", str(self.folder / "data"), *arguments).wait(WAIT_S)
        self.start()

    @property
    def dsn(self) -> str:
        return f"postgresql://rrx@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = (*self._settings, "listen_addresses=127.0.0.1", f"unix_socket_directories={self.folder}")
        options = [word for setting in settings for word in ("-c", setting)]
        self.process = self._run("postgres", "-D", str(self.folder / "data"), "-p", str(self.port), *options)
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                psycopg.connect(self.dsn, connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()) from None
                time.sleep(0.02)

    def stop(self, number: int = signal.SIGINT) -> None:
        """Stop it: SIGINT in order, SIGQUIT at once (``pg_ctl stop -m immediate``)."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(WAIT_S)
            self.process = None

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder)

    def new_database(self) -> str:
        """Make an empty database and return its DSN."""
        name = f"t{uuid.uuid4().hex}"
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"{self.dsn.rpartition('/')[0]}/{name}"

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        user = self._user
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(
                [self._binaries / program, *arguments],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C is for pytest
                **({} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}),
            )


def _exists(user: str) -> bool:
    return any(each.pw_name == user for each in pwd.getpwall())


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
