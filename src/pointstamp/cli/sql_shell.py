"""The loop of the SQL shell: read a statement or command, execute it, show results."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.text import Text
from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from pointstamp.arrangement.consolidate import DIFF
from pointstamp.arrow.ddl import to_ddl
from pointstamp.cli import sql_session
from pointstamp.cli.run_display import counted
from pointstamp.cli.sql_session import ShellEpoch, ShellSession, StoredTable
from pointstamp.errors import OperatorError, PointstampError, UsageError, words_of
from pointstamp.sql_views.parsing import SparkSql, parse

_WELCOME: Final = "Views that are kept up to date, as rows come and go. Write .help for help, .quit to end."
_HELP: Final = """\
Statements end with a semicolon:
  create table t (id long, city string, price long);      with a primary key, insert replaces
  create view v as select city, sum(price) as total from t group by city;
  insert into t values (1, 'Rome', 5), (2, 'Oslo', 7);    or insert into t select ...
  delete from t where id = 1;    update t set price = price + 1 where city = 'Oslo';
  select * from v where total > 5;                        what it is now; it is not kept
  begin; ... commit;    rollback;                         several changes in one epoch
  explain select city from v;                             its plan: as written, optimized, and as it runs
  drop view v;    drop table t;
Each change of a table is an epoch, after which the changes of the views are shown: + comes, - goes.
Commands are one line:
  .tables           the tables, with their columns and how many rows they have
  .views            the views, in the same way
  .explain          the plan of the views: as written, optimized, and as it runs
  .load t file      add the rows of a Parquet, CSV or JSON-lines file to a table
  .read file.sql    the statements of a file
  .help  .quit"""


# What is typed, cut into statements: a statement ends with a semicolon, a command is one line with a dot.

_PROMPTS: Final = ("sql> ", "  .. ")


class Typed:
    """Statements as they come, from a terminal or from a file."""

    def __init__(self, history: Path | None = None) -> None:
        self.is_terminal = sys.stdin.isatty()
        self._history = history if self.is_terminal else None
        self._remember()

    def __iter__(self) -> Iterator[str]:
        """Each text that is complete: one command, or statements up to a semicolon."""
        waiting = ""
        while True:
            try:
                line = self._line(_PROMPTS[bool(waiting)])
            except KeyboardInterrupt:  # what was typed is forgotten, as in every shell
                sys.stdout.write("\n")
                waiting = ""
                continue
            if line is None:
                break
            if not waiting and line.lstrip().startswith("."):
                yield line.strip()
                continue
            whole, waiting = cut(waiting + line + "\n")
            if whole:
                yield whole
        if waiting.strip():
            yield waiting

    def _line(self, prompt: str) -> str | None:
        """The next line; None if there is none."""
        if not self.is_terminal:
            return line.rstrip("\n") if (line := sys.stdin.readline()) else None
        try:
            return input(prompt)
        except EOFError:
            sys.stdout.write("\n")
            return None

    def _remember(self) -> None:
        """Let the lines of earlier times be found with the arrow keys, where there is readline."""
        if self._history is None:
            return
        try:
            import atexit
            import readline
        except ModuleNotFoundError:
            return
        place = self._history
        with suppress(OSError):  # there is none yet, or none that can be read
            readline.read_history_file(place)

        def keep() -> None:
            with suppress(OSError):  # what cannot be kept is no reason to end badly
                readline.set_history_length(1_000)
                readline.write_history_file(place)

        atexit.register(keep)


def cut(text: str) -> tuple[str, str]:
    """The statements of a text that end with a semicolon, and what follows the last of them.

    >>> cut("select ';' from t; select 1")
    ("select ';' from t;", ' select 1')
    """
    try:
        tokens = SparkSql().tokenize(text)
    except TokenError:  # a string or a comment continues in the next line
        return "", text
    if not tokens:
        return "", ""
    ends = [token.end + 1 for token in tokens if token.token_type is TokenType.SEMICOLON]
    if not ends:
        return "", text
    rest = text[ends[-1] :]
    return text[: ends[-1]], rest if rest.strip() else ""


class Shell:
    """A session, and who shows it."""

    def __init__(self, parameters: Mapping[str, object], time_zone: str | None = None) -> None:
        self._session = ShellSession(parameters, time_zone)
        self._display = Display()
        self._failed = 0
        self._commands: dict[str, tuple[int, Callable[..., None]]] = {
            ".help": (0, lambda: self._display.say(_HELP)),
            ".tables": (0, lambda: self._list(self._session.tables)),
            ".views": (0, lambda: self._list(self._session.views)),
            ".explain": (0, lambda: self._display.say(self._session.explained().rstrip())),
            ".load": (2, self._load),
            ".read": (1, self.read),
        }

    def run(self, typed: Typed) -> int:
        """Take statements until there are no more; the exit code says whether one of a file has failed."""
        if typed.is_terminal:
            self._display.say(_WELCOME)
        try:
            for text in typed:
                if text in (".quit", ".exit") or text.rstrip(";\n ").lower() in ("quit", "exit"):
                    break
                self._attempt(text)
        finally:
            self._session.close()
        return 1 if self._failed and not typed.is_terminal else 0

    def read(self, path: str) -> None:
        """Do the statements of a file; tables and views that follow each other are created together."""
        place = Path(path)
        if not place.is_file():
            raise UsageError(f"there is no file {path}.")
        self._do_all(place.read_text(encoding="utf-8"), f"{path}: ")

    def _attempt(self, text: str) -> None:
        try:
            if text.startswith("."):
                self._command(text)
            else:
                self._do_all(text)
        except OperatorError as error:
            cause = error if error.__cause__ is None else error.__cause__
            self._fail(f"{str(cause).rstrip('.')}. Nothing has changed.")
        except PointstampError as error:
            self._fail(str(error))
        except (pa.ArrowException, OSError) as error:
            self._fail(words_of(error))
        except KeyboardInterrupt:
            self._fail("interrupted")

    def _fail(self, words: str) -> None:
        self._failed += 1
        self._display.fail(words)

    # Commands.

    def _command(self, text: str) -> None:
        name, *arguments = text.rstrip(";").split(maxsplit=2)
        if name not in self._commands:
            known = ", ".join([*self._commands, ".quit"])
            raise UsageError(f"there is no command {name}; there are {known}.")
        count, command = self._commands[name]
        if len(arguments) != count:
            takes = counted(count, "argument") if count else "no arguments"
            raise UsageError(f"{name} takes {takes}, and has {len(arguments)}. Write .help.")
        command(*arguments)

    def _list(self, tables: Mapping[str, StoredTable]) -> None:
        for stored in tables.values():
            key = ", ".join(stored.declared.key) if stored.declared is not None else ""
            words = f", key {key}" if key else ""
            self._display.say(
                f"{stored.name} ({to_ddl(stored.schema)}){words}: {counted(stored.rows().num_rows, 'row')}"
            )
        if not tables:
            self._display.say("none")

    def _load(self, name: str, path: str) -> None:
        from pointstamp.cli.run_files import InputFile, format_of, read  # it loads pandas by way of Arrow

        stored = self._session.tables.get(name.lower())
        if stored is None:
            known = ", ".join(f"'{each}'" for each in self._session.tables) or "none"
            raise UsageError(f"there is no table '{name}'; there are {known}.")
        assert stored.declared is not None
        marks = [each for each in ("weight", "operation", "deleted") if each in stored.declared.properties]
        if marks:
            raise UsageError(
                f".load only inserts rows, but rows of '{stored.name}' can be deleted, by its property "
                f"'{marks[0]}'. "
                "Declare it without, or run the file: pointstamp sql views.sql --input."
            )
        rows = read(InputFile(stored.name, path, format_of(stored.name, path), stored.schema, None))
        count = sql_session.loaded(self._session, stored.name, rows.cast(stored.schema))
        self._changed(counted(count, "row"))

    # Statements.

    def _do_all(self, text: str, where: str = "") -> None:
        """The statements of a text, in order; those that create something together, as far as they go."""
        waiting: list[exp.Create] = []
        try:
            for node in parse(text):
                if isinstance(node, exp.Create):
                    waiting.append(node)
                    continue
                self._create(waiting)
                waiting = []
                self._do(node)
            self._create(waiting)
        except PointstampError as error:
            if where and not isinstance(error, OperatorError):
                raise UsageError(f"{where}{error}") from error
            raise

    def _create(self, nodes: list[exp.Create]) -> None:
        if not nodes:
            return
        session = self._session
        is_fed_again = session.epoch > 0
        new = session.create(nodes)
        if is_fed_again:
            self._display.say(f"a new flow has been fed with all rows up to epoch {session.epoch - 1}")
        for name in new:
            stored = session.views[name]
            if session.epoch and session.is_shown(name) and stored.changes:
                self._display.changes(name, stored.now())

    def _do(self, node: exp.Expr) -> None:
        session = self._session
        if isinstance(node, exp.Command) and node.name.upper() == "EXPLAIN":
            for query in parse(node.text("expression")):
                self._display.say(session.explained(query).rstrip())
        elif isinstance(node, exp.Insert | exp.Delete | exp.Update):
            self._changed(counted(sql_session.change(session, node), "row"))
        elif isinstance(node, exp.Transaction):
            session.is_waiting = True
        elif isinstance(node, exp.Commit):
            self._commit()
        elif isinstance(node, exp.Rollback):
            session.rollback()
        elif isinstance(node, exp.Drop):
            self._display.say(f"'{session.drop(node)}' is gone")
        elif isinstance(node, exp.Query | exp.Values):
            self._display.rows(in_order(session.value(without_order(node)), node))
        else:
            raise sql_session.unknown(node)

    def _changed(self, words: str) -> None:
        if self._session.is_waiting:
            self._display.say(f"{words}, with the next commit")
        else:
            self._commit()

    def _commit(self) -> None:
        session = self._session
        made = session.commit()
        self._display.epoch(made, [name for name in session.views if not session.is_shown(name)])


# What the shell shows: rows, and rows that come and go, in colours where there is a terminal.

ROWS_MAX: Final = 40


class Display:
    """Draws on standard output."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stdout, highlight=False, soft_wrap=True)

    def say(self, words: str) -> None:
        """A line of words."""
        self._console.print(Text(words))

    def fail(self, words: str) -> None:
        """An error, in one sentence."""
        self._console.print(Text(f"error: {words}", style="red"))

    def rows(self, table: pa.Table) -> None:
        """A table with a heading and how many rows it has."""
        self._plain(table)
        self.say(counted(table.num_rows, "row"))

    def epoch(self, epoch: ShellEpoch, hidden: Iterable[str]) -> None:
        """The changes of views in an epoch."""
        left_out = set(hidden)
        views = {name: each for name, each in epoch.views.items() if name not in left_out}
        if not views and not epoch.streams:
            self.say(f"epoch {epoch.number}: no view changes")
            return
        self.say(f"epoch {epoch.number}")
        for name, changes in views.items():
            self.changes(name, changes)
        for name, rows in epoch.streams.items():
            self._heading(name)
            self._plain(rows)

    def changes(self, name: str, changes: pa.Table) -> None:
        """The rows of a view that come (+) and go (-)."""
        self._heading(name)
        ordered = sorted(changes.to_pylist(), key=_place)
        shown, styles = [], []
        for row in ordered[:ROWS_MAX]:
            weight = row.pop(DIFF)
            copies = "" if abs(weight) == 1 else f" {abs(weight)}x"
            shown.append([("+" if weight > 0 else "-") + copies, *map(_cell, row.values())])
            styles.append("green" if weight > 0 else "red")
        self._grid(["", *changes.column_names[:-1]], shown, styles)
        self._more(changes.num_rows)

    def _heading(self, name: str) -> None:
        self._console.print(Text(f"  {name}", style="bold"))

    def _plain(self, table: pa.Table) -> None:
        rows = table.slice(0, ROWS_MAX).to_pylist()
        self._grid(table.column_names, [[_cell(value) for value in row.values()] for row in rows], [])
        self._more(table.num_rows)

    def _grid(self, names: Sequence[str], rows: list[list[str]], styles: Sequence[str]) -> None:
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        for number, row in enumerate([list(names), *rows]):
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            style = "dim" if not number else (styles[number - 1] if styles else "")
            self._console.print(Text(f"  {line}", style=style))

    def _more(self, count: int) -> None:
        if count > ROWS_MAX:
            self.say(f"  ... {count - ROWS_MAX:,} more")


def without_order(query: exp.Expr) -> exp.Expr:
    """A query whose order is for who shows it alone: one without a limit."""
    if query.args.get("limit") is None and query.args.get("order") is not None:
        query = query.copy()
        query.set("order", None)
    return query


def in_order(table: pa.Table, query: exp.Expr) -> pa.Table:
    """The rows of a query in the order that it says, as far as that is an order of its own columns."""
    order = query.args.get("order")
    wanted = []
    for each in [] if order is None else order.expressions:
        said = each.this
        name = said.name if isinstance(said, exp.Column) else ""
        if isinstance(said, exp.Literal) and not said.is_string:
            name = table.column_names[int(said.name) - 1]
        found = [column for column in table.column_names if column.lower() == name.lower()]
        if not found:
            return table
        wanted.append((found[0], each))
    for column, each in reversed(wanted):  # the sort is stable, so the first column has the last word
        table = table.take(_sorted(table[column], is_descending=bool(each.args.get("desc"))))
        is_null = pc.is_null(table[column])
        table = table.take(_sorted(is_null, is_descending=bool(each.args.get("nulls_first"))))
    return table


def _sorted(column: pa.ChunkedArray, *, is_descending: bool) -> pa.Array:
    by = [("by", "descending" if is_descending else "ascending")]
    return pc.sort_indices(pa.table({"by": column}), sort_keys=by)


def _place(row: dict[str, object]) -> tuple[object, ...]:
    """By the first column, which mostly is a key; then what goes, what comes, and the other columns."""
    first, *others = [
        (value is not None, _number(value), str(value)) for name, value in row.items() if name != DIFF
    ]
    weight = row[DIFF]
    assert isinstance(weight, int)
    return (first, weight > 0, *others)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and value == value else 0.0


def _cell(value: object) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
