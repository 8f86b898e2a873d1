"""A PostgreSQL of the tests' own: a folder, a socket in it, no port, and no service of the system.

As root it runs as the user ``postgres``, because the server refuses to run as root. It is stopped by
``pg_ctl``, which knows its process, and by a watcher if the tests are killed.
"""

import glob
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import psycopg
import pytest

from support.watcher import call_off, watched

SECONDS_MAX: Final = 120


def programs() -> Path:
    """Where PostgreSQL's programs are; the test is skipped where they are not installed."""
    places = [*glob.glob("/usr/lib/postgresql/*/bin"), *glob.glob("/opt/homebrew/opt/postgresql*/bin")]
    if found := shutil.which("initdb"):
        places.append(str(Path(found).parent))
    if not places:
        pytest.skip(
            "PostgreSQL is not installed; `make setup` installs it (Debian: apt-get install postgresql)"
        )
    return Path(max(places))


class Server:
    """A server in a folder of its own, from ``with`` to its end."""

    def __init__(self) -> None:
        self._programs = programs()
        self._user = "postgres" if os.getuid() == 0 else None
        self._folder = Path(tempfile.mkdtemp(prefix="ps-pg-"))
        self._data = self._folder / "data"
        if self._user:
            shutil.chown(self._folder, self._user)
        self._reader: psycopg.Connection[tuple[Any, ...]] | None = None
        self.conninfo = f"host={self._folder} user=test dbname=postgres"

    def _run(self, program: str, *arguments: object) -> None:
        subprocess.run(
            [str(self._programs / program), "-D", str(self._data), *map(str, arguments)],
            check=True,
            user=self._user,
            cwd="/",
            stdout=subprocess.DEVNULL,
            timeout=SECONDS_MAX,
        )

    def look(self, statement: Any, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:  # noqa: ANN401
        """What a reader sees; its connection is kept, because a new one costs the server more."""
        if self._reader is None or self._reader.closed:
            self._reader = psycopg.connect(self.conninfo, autocommit=True)
        return self._reader.execute(statement, values).fetchall()

    def start(self) -> None:
        options = f"-k {self._folder} -c listen_addresses='' -c fsync=off -c max_connections=40"
        self._run("pg_ctl", "-w", "-s", "-l", self._folder / "log", "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        if self._reader is not None:
            self._reader.close()
        self._run("pg_ctl", "-w", "-s", "-m", mode, "stop")

    def __enter__(self) -> "Server":
        self._run("initdb", "-U", "test", "-A", "trust", "--no-locale", "-E", "UTF8", "--no-sync")
        self._watcher = watched(self._data / "postmaster.pid", self._folder, signal.SIGQUIT)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop("immediate")
        call_off(self._watcher)
        shutil.rmtree(self._folder)
