"""Spark's own SQL test inputs as views: each query beside Spark's answer over the same tables.

A file is statements: tables and views are made, settings are set, and queries are asked. A query is defined
as a view, fed with the rows of the tables that it reads, and compared. Nothing of the files is kept here.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from benchmarks.sql.answers import added_up, check_same, rows_of_table

import pointstamp as ps
from pointstamp.errors import FlowError, LoopError, PointstampError
from pointstamp.flow.plan import NodeKind

_QUERY: Final = re.compile(r"\s*\(*\s*(select|with|values|table|from)\b", re.IGNORECASE)
_SET: Final = re.compile(r"--SET\s+(.*)")
_KEPT: Final = {"spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false"}
"""Settings of each session: queries of a few rows need neither many partitions nor other plans."""
_CHANGING: Final = re.compile(
    r"\b(rand|randn|random|uuid|current_\w+|now|shuffle|tablesample)\b\s*\(?", re.IGNORECASE
)

_VIEW: Final = re.compile(r"\s*create\s+(?:or\s+replace\s+)?temp(?:orary)?\s+view\s+(\w+)", re.IGNORECASE)
"""A view over VALUES has constants; its rows become a table, so that queries over it read one."""
_TABLE: Final = re.compile(r"LogicalRDD|(?<!Local)(?<!OneRow)(?<!CTE)Relation|View \(")
"""A leaf of a plan in Spark's text that is a table."""
_OTHER: Final = "another_table"
"""A table beside a query of constants, because nothing changes in a flow without one."""
_PARTS: Final = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|;|[^;'"`/-]+|.""", re.DOTALL
)
"""Comments, texts, names, the end of a statement, and what is between."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a query."""

    file: str
    query: str
    kind: str
    """equal, different, rejected, fails (Spark raises), changing, open, or accepted (it was not run).

    The answer to a query is open if its LIMIT takes any of several rows.
    """
    why: str = ""
    is_constant: bool = False
    """Whether it reads no table."""


@dataclass
class Report:
    """The outcomes of some files."""

    outcomes: list[Outcome] = field(default_factory=list)

    def summary(self) -> str:
        """Counts, reasons by their number, and all queries whose answers differ."""
        kinds = Counter(each.kind for each in self.outcomes)
        lines = [
            f"{len(self.outcomes)} queries: "
            + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()),
            *(
                _share(words, [each for each in self.outcomes if each.is_constant in wanted])
                for words, wanted in (
                    ("", (False, True)),
                    (" over tables", (False,)),
                    (" without tables", (True,)),
                )
            ),
            "",
            "rejected because:",
        ]
        reasons = Counter(_short(each.why) for each in self.outcomes if each.kind == "rejected")
        lines += [f"{count:6} {why}" for why, count in reasons.most_common()]
        lines += ["", "different:"]
        lines += [
            f"{each.file}: {' '.join(each.query.split())[:200]}\n      {each.why[:300]}"
            for each in self.outcomes
            if each.kind == "different"
        ]
        return "\n".join(lines)


def _share(words: str, outcomes: list[Outcome]) -> str:
    """The line that says how many of the queries whose answers are determined are accepted."""
    kinds = Counter(each.kind for each in outcomes)
    accepted = kinds["equal"] + kinds["different"] + kinds["accepted"]
    asked = accepted + kinds["rejected"]
    share = 100 * accepted / max(asked, 1)
    return f"{share:.0f} % of the {asked} deterministic queries{words} are accepted"


def _short(why: str) -> str:
    """A reason without the names of its query."""
    text = re.sub(r"view 'v': ", "", why)
    node = re.match(r"(\w+)(: \w+)?", text)
    called = re.search(r"'?([A-Za-z]+)\(", text)
    words = re.sub(r"'[^']*'|#\d+|\d+", "_", text.split(". ")[0])
    return f"{node[0] if node else ''} {called[1] if called else ''} | {words[-90:]}"


def statements(text: str) -> Iterator[str]:
    """The statements of a file, without comments.

    >>> list(statements("-- a; b\\nselect ';' as x; select 1"))
    ["select ';' as x", 'select 1']
    """
    parts: list[str] = []
    for match in _PARTS.finditer(text):
        found = match[0]
        if found == ";":
            if made := "".join(parts).strip():
                yield made
            parts = []
        elif not found.startswith(("--", "/*")):
            parts.append(found)
    if made := "".join(parts).strip():
        yield made


def compared_file(
    spark: Any,  # noqa: ANN401 - a session
    path: Path,
    *,
    runs: bool = True,
    every: int = 1,
) -> Iterator[Outcome]:
    """What comes of the queries of a file, or of one in so many; without ``runs`` a view is only defined."""
    text = path.read_text(encoding="utf-8", errors="replace")
    for imported in re.findall(r"--IMPORT\s+(\S+)", text):
        other = path.parents[len(path.parts) - 1 - path.parts.index("inputs") - 1] / imported
        text = other.read_text(encoding="utf-8", errors="replace") + ";\n" + text
    with _session(spark, _SET.findall(text)) as session:
        for statement in statements(text):
            if _QUERY.match(statement):
                if zlib.crc32(statement.encode()) % every:
                    continue
                kind, why = _compared(session, statement, runs=runs)
                is_asked = kind not in ("fails", "changing")
                is_constant = is_asked and _is_constant(session, statement)
                yield Outcome(path.name, statement, kind, why, is_constant)
                continue
            try:
                session.sql(statement).collect()
                if (made := _VIEW.match(statement)) is not None:
                    rows = session.createDataFrame(session.table(made[1]).toArrow())
                    rows.createOrReplaceTempView(made[1])
            except Exception:  # noqa: S112 - mistakes are tested there, too
                continue


@contextmanager
def _session(spark: Any, settings: list[str]) -> Iterator[Any]:  # noqa: ANN401 - sessions
    """A session of a file, with its settings, views and a database that does not stay."""
    session = spark.newSession()
    for name, value in _KEPT.items():
        session.conf.set(name, value)
    session.sql("create database if not exists inputs")
    session.sql("use inputs")
    session.createDataFrame([(1,)], "one int").createOrReplaceTempView(_OTHER)
    try:
        for name, value in re.findall(r"([\w.]+)\s*=\s*([^,\s]+)", ",".join(settings)):
            try:
                session.conf.set(name, value)
            except Exception:  # noqa: S112 - a setting of the JVM
                continue
        yield session
    finally:
        spark.sql("drop database if exists inputs cascade")


def _compared(spark: Any, query: str, *, runs: bool) -> tuple[str, str]:  # noqa: ANN401 - a session
    if _CHANGING.search(query):
        return "changing", ""
    try:
        frame = spark.sql(query)
        if len(set(frame.columns)) < len(frame.columns):  # a view has columns by name
            frame = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
        theirs = frame.toArrow() if runs else None
        if not frame.columns:
            return "fails", "a command"
    except Exception as error:
        return "fails", str(error).split("\n")[0]
    try:
        try:
            flow = ps.views(spark, {"v": frame})
        except FlowError as error:
            if "reads no table" not in str(error):
                raise
            if theirs is None:
                return "accepted", ""
            flow = ps.views(spark, {"v": frame, _OTHER: spark.table(_OTHER)})
    except PointstampError as error:
        text = str(error)
        return ("fails" if "ConstantFolding does not apply" in text else "rejected"), text
    except Exception as error:
        return "different", f"{type(error).__name__} when it is defined: {error}"
    if theirs is None:
        return "accepted", ""
    try:
        tables = {name: _rows(frame, name) for name in flow.plan.named(NodeKind.INPUT)}
    except Exception as error:
        return "rejected", f"its table is not found: {str(error)[:80]}"
    try:
        results = flow.run(tables)["v"]
        ours = added_up([results[each] for each in sorted(results)])
        check_same(ours, rows_of_table(theirs), "answers")
    except LoopError as error:
        return "rejected", f"LoopError: {str(error).rpartition('Use')[0][:60]}"
    except AssertionError as error:
        is_open = "Spark takes any of them" in flow.explain()  # LIMIT over rows that no order tells apart
        return "open" if is_open else "different", str(error)
    except (
        PointstampError,
        pa.ArrowException,
        ArithmeticError,
        TypeError,
        ValueError,
    ) as error:
        return "different", f"{type(error).__name__}: {error}"
    return "equal", ""


def _is_constant(spark: Any, query: str) -> bool:  # noqa: ANN401 - a session
    """Whether a query reads no table."""
    plan = spark.sql(query)._jdf.queryExecution().analyzed().toString()
    return _TABLE.search(plan) is None


def _rows(frame: Any, name: str) -> pa.Table:  # noqa: ANN401 - a DataFrame
    """The rows of a table by the name that the plan gives it, which can be in another schema."""
    plan = frame._jdf.queryExecution().analyzed().toString()
    found = re.search(rf"Relation spark_catalog\.(\w+\.{name})\[", plan)
    return frame.sparkSession.table(name if found is None else found[1]).toArrow()
