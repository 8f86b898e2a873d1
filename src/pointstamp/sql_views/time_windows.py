"""GROUP BY window(at, '10 minutes') and session_window(at, '5 minutes'): windows of event time.

As in Spark the window is then called ``window`` (or ``session_window``), with the fields ``start`` and
``end``: here these two are columns. A window is corrected however late a row is, unless HAVING says that it
is wanted when it is over (``while_open``: then what is kept of it is let go).
"""

from typing import Final

from sqlglot import exp

from pointstamp.expressions.tree import col
from pointstamp.sql_views.catalog import Catalog
from pointstamp.sql_views.literals import constant_int, constant_text
from pointstamp.sql_views.refusing import placed, refused
from pointstamp.sql_views.scope import Relation, ScopeName
from pointstamp.sql_views.translating import Translator

_WINDOWS: Final = ("window", "session_window")


def with_time_windows(
    relation: Relation,
    nodes: list[exp.Expr],
    translator: Translator,
    catalog: Catalog,
    *,
    is_plain: bool,
    while_open: bool,
) -> tuple[Relation, Translator]:
    """Rows with the windows that they are grouped by; the nodes are changed to the columns of these."""
    for node in list(nodes):
        if not isinstance(node, exp.Anonymous) or str(node.this).lower() not in _WINDOWS:
            continue
        kind, unique = str(node.this).lower(), catalog.unique("window")
        if not is_plain:
            raise refused(node, f"{kind} in ROLLUP, CUBE or GROUPING SETS is not supported")
        others = [each for each in nodes if each is not node]
        with placed(node):
            relation = _in_windows(relation, node, others, translator, unique, while_open=while_open)
        columns = [exp.column(part, table=kind) for part in ("start", "end")]
        added = [ScopeName(kind, part, f"{unique}.{part}") for part in ("start", "end")]
        relation = Relation(relation.table, (*relation.names, *added))
        translator = Translator(relation.scope, translator.parameters, translator.answers)
        position = next(n for n, each in enumerate(nodes) if each is node)
        nodes[position : position + 1] = columns
    return relation, translator


def _in_windows(
    relation: Relation,
    node: exp.Anonymous,
    others: list[exp.Expr],
    translator: Translator,
    unique: str,
    *,
    while_open: bool,
) -> Relation:
    kind, arguments = str(node.this).lower(), node.expressions
    if not 2 <= len(arguments) <= (4 if kind == "window" else 2):
        raise refused(node, f"{kind} takes a time and a length", f"Write {kind}(at, '10 minutes').")
    at, start, end = f"{unique}.at", f"{unique}.start", f"{unique}.end"
    wide = relation.table.select(*relation.table.schema.names, translator(arguments[0]).alias(at)).named(
        "event time"
    )
    lengths = [_length(each) for each in arguments[1:]]
    if kind == "window":
        slide = lengths[1] if len(lengths) > 1 else None
        offset = lengths[2] if len(lengths) > 2 else None
        made = wide.window(at, lengths[0], slide=slide, offset=offset, start=start, end=end)
    else:
        keys = {f"{unique}.key{n}": translator(each) for n, each in enumerate(others)}
        keyed = wide.select(*wide.schema.names, *(each.alias(name) for name, each in keys.items()))
        made = keyed.session_window(*keys, at=at, gap=lengths[0], start=start, end=end, while_open=while_open)
    kept = [col(each) for each in (*relation.table.schema.names, start, end)]
    return relation.with_table(made.select(*kept).named("in windows"))


def _length(node: exp.Expr) -> str | int:
    if isinstance(node, exp.Literal) and not node.is_string:
        return constant_int(node, "the length of a window")
    return constant_text(node, "the length of a window")
