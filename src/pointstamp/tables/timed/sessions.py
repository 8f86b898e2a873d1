"""Sessions: events of a key that follow each other closely, with a pause before the first and after the last.

Two events of a key are in one session when they are at most the gap apart, or when others between them are,
each of the next. A session begins with its first event and ends the gap after its last one. As in Spark, an
event at the end itself is still in it, so a session is over when event time has passed its end.

An event that comes late may join two sessions to one, and one that is deleted may divide one into two: all
events of the key are looked at again, and those whose session is another one now are retracted and resent.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.selecting import check_columns
from pointstamp.expressions.windows import Span, event_time_type, instants_of, integers_of, span_of
from pointstamp.tables.column_names import check_new_names
from pointstamp.tables.kept.groups import Grouped
from pointstamp.tables.kept.weights import DIFF, DIFF_FIELD


@dataclass(frozen=True, slots=True)
class Sessions:
    """The function of ``session_window``: from groups to their rows, each with its session."""

    at: str
    gap: int
    result: pa.Schema
    """The columns of the rows, where a session begins and ends, and the weight."""

    def __call__(self, groups: Grouped) -> pa.RecordBatch:
        """All rows of all groups, with where their sessions begin and end."""
        rows = groups.rows
        group = np.repeat(np.arange(len(groups.starts)), np.diff(groups.starts, append=rows.num_rows))
        instants = integers_of(rows.column(self.at)).to_numpy()
        order = np.lexsort([instants, group])
        ordered, owner = instants[order], group[order]
        starts = np.flatnonzero(self._begins(ordered, owner))
        lasts = np.append(starts[1:], len(ordered))[: len(starts)] - 1
        which = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(ordered)))
        kind = self.result.field(len(self.result) - 2).type
        begins = pa.array(ordered[starts][which])
        last = pc.add_checked(pa.array(ordered[lasts][which]), pa.scalar(self.gap, pa.int64()))
        taken = rows.take(pa.array(order))
        own = [taken.column(name) for name in self.result.names[:-3]]
        added = [instants_of(begins, kind), instants_of(last, kind), taken.column(DIFF)]
        return pa.RecordBatch.from_arrays([*own, *added], schema=self.result)

    def _begins(
        self, instants: np.typing.NDArray[np.int64], owner: np.typing.NDArray[np.intp]
    ) -> np.typing.NDArray[np.bool_]:
        """Whether a session begins with each of these, which are in order for each owner."""
        begins = np.ones(len(instants), np.bool_)
        # As unsigned numbers, because the difference of the least and the greatest instant is no signed one.
        apart = (instants[1:] - instants[:-1]).view(np.uint64)
        begins[1:] = (owner[1:] != owner[:-1]) | (apart > self.gap)
        return begins


def sessions(who: str, schema: pa.Schema, at: str, gap: Span, names: tuple[str, str]) -> Sessions:
    """Return the checked sessions; raise for a missing or existing column, or an invalid gap."""
    check_columns(who, schema, [at])
    found = schema.field(at).type
    gives = event_time_type(f"{who}, of '{at}',", found)
    length = span_of(f"{who}: gap", found, gap)
    if length < 1:
        raise FlowError(f"{who}: gap must be above 0, got {gap!r}. Give a duration such as '5 minutes'.")
    check_new_names(who, names)
    for name in names:
        if name in schema.names or names[0] == names[1]:
            raise SchemaError(
                f"{who}: the column '{name}' already exists. Choose other names with start= and end=, or "
                "rename it."
            )
    added = [pa.field(name, gives) for name in names]
    return Sessions(at, length, pa.schema([*schema, *added, DIFF_FIELD]))
