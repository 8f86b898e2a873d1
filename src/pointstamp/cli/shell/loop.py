"""The loop of the shell: takes the next statement or command, does it, and shows what came of it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
from sqlglot import exp

from pointstamp.cli.run_display import counted
from pointstamp.cli.shell import changing
from pointstamp.cli.shell.display import Display, in_order, without_order
from pointstamp.cli.shell.reading import Typed
from pointstamp.cli.shell.session import ShellSession
from pointstamp.cli.shell.stored import StoredTable
from pointstamp.errors import OperatorError, PointstampError, UsageError, words_of
from pointstamp.rows.ddl import to_ddl
from pointstamp.sql_views.parsing import parse

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


class Shell:
    """A session, and who shows it."""

    def __init__(self, parameters: Mapping[str, object]) -> None:
        self._session = ShellSession(parameters)
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
                f".load only adds rows, and '{stored.name}' has rows that go, by its property '{marks[0]}'. "
                "Declare it without, or run the file: pointstamp sql views.sql --input."
            )
        rows = read(InputFile(stored.name, path, format_of(stored.name, path), stored.schema, None))
        count = changing.loaded(self._session, stored.name, rows.cast(stored.schema))
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
            self._changed(counted(changing.change(session, node), "row"))
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
            raise changing.unknown(node)

    def _changed(self, words: str) -> None:
        if self._session.is_waiting:
            self._display.say(f"{words}, with the next commit")
        else:
            self._commit()

    def _commit(self) -> None:
        session = self._session
        made = session.commit()
        self._display.epoch(made, [name for name in session.views if not session.is_shown(name)])
