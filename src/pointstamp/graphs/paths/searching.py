"""Searches by the array operator, for integer ids outside of loops.

It is one operator in a loop in a loop (``phases``). The outer loop has three rounds, the *phases* of an
epoch, and the inner one a round for each time that workers tell each other.
"""

import pyarrow as pa
import pyarrow.compute as pc

import pointstamp as ps
from pointstamp.graphs.graph import DST, ID, SRC
from pointstamp.graphs.paths.phases import Search


def searched(
    starts: ps.Table,
    steps: ps.Table,
    *,
    name: str,
    length: int | None = None,
    by_rank: bool = False,
    both_ways: bool = False,
) -> ps.Table:
    """``id`` and least ``distance`` of all that can be reached from ``starts`` by ``steps``.

    Starts have ``id`` and ``distance``, one for each id; steps lead from ``src`` to ``dst``, and have a
    column ``length`` unless all have the one that is given. With ``by_rank`` distances are labels, of which
    the least are passed on first. With ``both_ways`` every step leads back as well; it is given once.
    """
    begun, went = starts.changes().named(f"{name}: starts"), steps.changes().named(f"{name}: steps")
    if both_ways:
        went = went.map_batches(_both_ways).named(f"{name}: both ways")
    search = Search(begun.schema, length, by_rank=by_rank, both_ways=both_ways)
    with begun.loop(f"{name}: phases") as phases:
        begun, went = phases.enter(begun), phases.enter(went)
        with begun.loop(name) as loop:
            told = loop.variable(search.outputs["told"], "told")
            again, found = ps.operator(
                name,
                search,
                starts=loop.enter(begun).exchange(ID),
                steps=loop.enter(went).exchange(DST),
                told=told.broadcast(),
            )
            loop.feedback(told, again)
            found = loop.leave(found)
        return ps.Table(phases.leave(found))


def _both_ways(steps: pa.RecordBatch) -> pa.RecordBatch:
    """Each step and the one back, which is the same from a vertex to itself."""
    back = steps.filter(pc.not_equal(steps.column(SRC), steps.column(DST)))
    ends = {SRC: back.column(DST), DST: back.column(SRC)}
    turned = [ends.get(name, back.column(name)) for name in steps.schema.names]
    return pa.concat_batches([steps, pa.RecordBatch.from_arrays(turned, schema=steps.schema)])
