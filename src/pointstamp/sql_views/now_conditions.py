"""Conditions on ``now()``: what event time has passed, and what it has not.

``now()`` is the bound of event time: the greatest time of all rows so far, less the lateness that a watermark
promises, and of several tables the least of theirs. It has one value in a query: all tables that the query
reads count, in joins, subqueries and branches of UNION or EXCEPT, too. So a condition on it may be applied to
one table before that is joined. It moves with rows and never by itself, and a view of it is the same on every
worker and after every failure.

``x > now()`` keeps rows until the bound has reached their time: they leave in the next epoch that has event
times, and everything behind forgets them. ``x <= now()`` lets rows through once the bound has reached them.
Of groups, in HAVING, the second is what is final: each comes once, in the epoch in which its time is over,
and the rows that it is made of are freed.
"""

from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from pointstamp.dataflow.record import physical_of
from pointstamp.dataflow.table import Table
from pointstamp.errors import FlowError, SqlError
from pointstamp.expressions.tree import Expression
from pointstamp.flow.watermarks import check_forgets, has_clock
from pointstamp.incremental.physical_table import deltas_of
from pointstamp.sql_views.literals import interval_months
from pointstamp.sql_views.rejection import placed, refused

_NAMES: Final = ("now", "current_timestamp")
_KEEPS: Final = "x > now() - interval 1 hour"
_LETS: Final = "x <= now()"


@dataclass(frozen=True, slots=True)
class TimeCondition:
    """A condition on event time: the time that a row says, and whether it is to be over or not."""

    node: exp.Expr
    value: exp.Expr
    is_over: bool

    def applied(self, table: Table, value: Expression) -> Table:
        """The rows of a table for which it holds now."""
        self.check_promised(table)
        with placed(self.node):
            if not self.is_over:
                return table.retain_until(value)
            if not table.is_append_only:
                raise refused(
                    self.node,
                    "rows that are emitted when their time is over cannot be retracted, but rows of this "
                    "query can be deleted",
                    "For groups, write it in HAVING; otherwise use an append-only table.",
                )
            return self._final(table, value)

    def final(self, table: Table, value: Expression) -> Table:
        """Groups whose time is over, each once; the rows that they are made of must have been freed."""
        with placed(self.node):
            return self._final(table, value)

    def check_promised(self, table: Table) -> None:
        """Reject a table without a watermark."""
        if not has_clock(deltas_of(physical_of(table))):
            raise refused(
                self.node,
                "now() is the watermark, but no table of the query has one",
                "Declare one: create table t (..., watermark for at as at - interval 4 seconds). "
                "Or set the property 'epoch'.",
            )

    def _final(self, table: Table, value: Expression) -> Table:
        try:
            check_forgets(deltas_of(physical_of(table)), "now()")
        except FlowError as error:
            raise refused(
                self.node,
                "this condition waits for rows whose state would grow without bound",
                f"Delete them upstream, with a condition such as {_KEEPS}, or write it in HAVING.",
            ) from error
        return table.emit_on_close(value).to_table().named("over")


def is_now(node: exp.Expr) -> bool:
    """Return whether a node is ``now()``."""
    return isinstance(node, exp.CurrentTimestamp) or (
        isinstance(node, exp.Anonymous) and str(node.this).lower() in _NAMES and not node.expressions
    )


def refused_now(node: exp.Expr) -> SqlError:
    """Return the error for an unsupported ``now()``."""
    return refused(
        node,
        "now() changes without a change of the input, so a view of it cannot be kept up to date",
        f"Where a table has a watermark, WHERE and HAVING may have a condition {_KEEPS}, or {_LETS}.",
    )


def time_condition(node: exp.Expr) -> TimeCondition | None:
    """A condition that compares a time with ``now()``; None if it does not refer to it."""
    inner = node.unnest() if isinstance(node, exp.Paren) else node
    if not any(is_now(each) for each in inner.walk()):
        return None
    if not isinstance(inner, exp.GT | exp.LTE | exp.LT | exp.GTE):
        raise refused_now(node)
    value, limit, is_over = inner.this, inner.expression, isinstance(inner, exp.LTE)
    is_known = isinstance(inner, exp.GT | exp.LTE)
    if not any(is_now(each) for each in limit.walk()):
        value, limit, is_over = limit, value, isinstance(inner, exp.GTE)
        is_known = isinstance(inner, exp.LT | exp.GTE)
    if any(is_now(each) for each in value.walk()) or not is_known:
        raise refused_now(node)
    limit = limit.unnest()
    if is_now(limit):
        return TimeCondition(node, value, is_over)
    if isinstance(limit, exp.Sub | exp.Add) and is_now(limit.this.unnest()):
        interval = limit.expression
        is_length = isinstance(interval, exp.Interval) and interval_months(interval) is None
        if is_length or (isinstance(interval, exp.Literal) and interval.name.isdigit()):
            moves = exp.Add if isinstance(limit, exp.Sub) else exp.Sub
            moved = moves(this=exp.Paren(this=value.copy()), expression=interval.copy())
            return TimeCondition(node, moved, is_over)
    raise refused_now(node)
