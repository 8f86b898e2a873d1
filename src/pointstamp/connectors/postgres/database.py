"""Database connections and transactions.

A connection is opened when it is first needed, and again after any error: what was begun on the old one is
undone by the server, as if the process had died. Nothing waits forever. A server that is gone is noticed
after a minute, a lock is waited for as long, and the server itself ends the transaction of a client that has
said nothing for a minute: a driver that was stopped does not hold up the one that replaces it.
"""

import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pointstamp.errors import FlowError, StorageError
from pointstamp.redaction import HIDDEN, is_secret, redact, redact_text

if TYPE_CHECKING:
    import psycopg
    from psycopg.sql import Composed, Identifier

    Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
    Cursor: TypeAlias = psycopg.Cursor[tuple[Any, ...]]

Connect: TypeAlias = Callable[[str], Any]
"""Opens a connection of psycopg's by what libpq needs to know of it."""

_SECONDS_MAX: Final = 60
_BOUNDS: Final[Mapping[str, int]] = {
    "connect_timeout": 20,
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 4,
    "tcp_user_timeout": 1000 * _SECONDS_MAX,
}
_SETTINGS: Final = """
    SELECT set_config('lock_timeout', %s, false),
           set_config('idle_in_transaction_session_timeout', %s, false),
           set_config('timezone', 'UTC', false),
           set_config('datestyle', 'ISO', false),
           set_config('synchronous_commit',
                      CASE current_setting('synchronous_commit')
                          WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)
"""


def connected(conninfo: str) -> "Connection":
    """A connection with bounds on how long it waits, where none are given."""
    given = connection_options(conninfo)
    pg = psycopg_package()
    connection: Connection = pg.connect(**{**_BOUNDS, **given}, application_name="pointstamp")
    return connection


def connection_options(conninfo: str) -> dict[str, Any]:
    """Return the options of a connection string; FlowError, without quoting it, where libpq cannot parse it.

    A URL whose password contains a raw ``/`` or ``@`` can be parsed, but with a piece of the password as its
    host or database: it is rejected, because that piece would be sent to a name server and shown in errors.
    """
    pg = psycopg_package()
    url = re.match(r"postgres(?:ql)?://([^/]*)(.*)", conninfo, re.DOTALL)
    if url is not None and (url[1].count("@") > 1 or "@" in url[2]):
        raise FlowError(
            f"PostgresSink: conninfo '{redact(conninfo)}' contains '@' or '/' unescaped in its user or "
            "password. Percent-encode them: '@' as %40, '/' as %2F."
        )
    try:
        options: dict[str, Any] = pg.conninfo.conninfo_to_dict(conninfo)
    except (pg.Error, ValueError):  # the latter for bytes that are not UTF-8
        # The text of the error quotes pieces of the connection string.
        raise FlowError(
            "PostgresSink: libpq cannot parse conninfo. Write keyword=value pairs, with quotes around a "
            "value "
            "that contains spaces: host=db dbname=shop password='a b'; or a URL."
        ) from None
    return options


class Database:
    """One connection, which is opened again after an error; ``conninfo`` may hold a password."""

    def __init__(self, conninfo: str, connect: Connect = connected) -> None:
        self._conninfo = conninfo
        self._connect = connect
        self._open: Connection | None = None

    @property
    def address(self) -> str:
        """The address of the database, without secrets."""
        said = connection_options(self._conninfo)
        port = f":{said['port']}" if "port" in said else ""
        return f"{said.get('dbname', 'the default')} at {said.get('host', 'the default host')}{port}"

    @contextmanager
    def transaction(self) -> "Iterator[Connection]":
        """All that is done inside happens at the end, or nothing of it does."""
        pg = psycopg_package()
        try:
            connection = self._connection()
            yield connection
            connection.commit()
        except pg.Error as error:
            self.close()
            text = redact_text(str(error), self._conninfo)
            for name, value in connection_options(self._conninfo).items():
                text = text.replace(str(value), HIDDEN) if is_secret(name) else text
            said = " ".join((text.splitlines() or [type(error).__name__])[:2])
            raise StorageError(
                f"the database {self.address} rejected a statement: {said.rstrip('.')}."
            ) from (error if text == str(error) else None)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the connection back; the next transaction opens another one."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _connection(self) -> "Connection":
        if self._open is None:
            self._open = self._connect(self._conninfo)
            weakref.finalize(self, self._open.close)
            limit = f"{_SECONDS_MAX}s"
            self._open.execute(_SETTINGS, [limit, limit])
            self._open.commit()
        return self._open


def identifier(*names: str) -> "Identifier":
    """Return a quoted name for a statement that ``run`` executes, whatever characters it has."""
    # Statements are executed with parameters, so that a percent sign in a name must be doubled.
    quoted: Identifier = psycopg_package().sql.Identifier(*(name.replace("%", "%%") for name in names))
    return quoted


def run(connection: "Connection", statement: "Composed", values: Sequence[object] = ()) -> "Cursor":
    """Execute a statement that was composed of identifiers; with values for its placeholders, or without."""
    return connection.execute(statement, values)


def psycopg_package() -> ModuleType:
    """The package psycopg; FlowError where it is not installed."""
    try:
        import psycopg
    except ImportError as error:
        raise FlowError(
            "PostgreSQL tables need the package psycopg on the driver and on all workers, which is not "
            "installed. Install pointstamp[postgres]."
        ) from error
    return psycopg
