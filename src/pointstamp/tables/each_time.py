"""Streams as tables of one time: what an operation on tables makes of the rows of each epoch by itself.

The operations are those of tables, and they restart from scratch at every time (``pointstamp.flow.afresh``).
What comes of them are changes from nothing, so rows that are there: each is sent as often as it is there.
"""

from collections.abc import Callable, Sequence

from pointstamp.flow.marking import check_adds_up
from pointstamp.flow.outlet import Outlet, add_operator, wiring
from pointstamp.flow.stream import Stream
from pointstamp.flow.updates import Passes
from pointstamp.operators.spec import spec
from pointstamp.tables import deltas
from pointstamp.tables.column_names import weighed_columns
from pointstamp.tables.table import Table, deltas_of
from pointstamp.tables.weighing import Appended, Repeated


class OneTime(Stream):
    """The changes of a table that is there for one time only."""

    _begins_anew = True


def within_times(
    name: str, streams: Sequence[Outlet], body: Callable[..., Table], *, in_parts: bool
) -> Stream:
    """What a body makes of the tables that the rows of a time are, as a stream.

    ``in_parts`` says that it comes in parts that must be added up, such as rows that another part takes away.
    """
    tables = [Table(_rows_of(stream, name)) for stream in streams]
    made = deltas_of(body(*tables))
    made = deltas.summed(made, f"{name}: added up") if in_parts else made
    sent = add_operator(f"{name}: rows", Repeated, {"in": made}, {"out": deltas.rows_schema(made)})[0]
    at = wiring(sent)
    return Stream(at.builder, at.source, sent.schema, at.scope)


def _rows_of(stream: Outlet, name: str) -> OneTime:
    who = f"'{name}' of {stream}"
    check_adds_up(wiring(stream).builder.plan, wiring(stream).source, who)
    schema = weighed_columns(who, list(stream.schema))
    logic = spec(Appended, schema, None)
    added = add_operator(f"{name}: epoch", logic, {"in": stream}, {"out": schema}, sends=Passes.ADDED)[0]
    at = wiring(added)
    return OneTime(at.builder, at.source, schema, at.scope)
