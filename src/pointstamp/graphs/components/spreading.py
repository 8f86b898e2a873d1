"""The least id that reaches each vertex, as a loop of tables.

In round i the label of a vertex is the least id from which at most i links lead to it.
"""

import pointstamp as ps
from pointstamp.graphs.graph import DST, ID, SRC, Graph

COMPONENT = "component"


def least_label(ids: ps.Table, links: ps.Table, *, name: str) -> ps.Table:
    """``id`` and ``component``: for each id the least from which links lead to it, itself among them."""

    def spread(labels: ps.Table, own: ps.Table, links: ps.Table) -> ps.Table:
        passed_on = (
            labels.join(links, {ID: SRC})
            .named(f"{name}: along links")
            .select(id=ps.col(DST), component=ps.col(COMPONENT))
            .named(f"{name}: passed on")
        )
        return (
            own.union(passed_on)
            .named(f"{name}: labels")
            .group_by(ID)
            .agg(component=ps.min(COMPONENT))
            .named(f"{name}: least")
        )

    own = ids.select(ID, component=ps.col(ID)).named(f"{name}: own")
    return own.iterate(spread, own, links, name=name)


def by_least_id(graph: Graph, found: ps.Table, *, name: str) -> ps.Table:
    """``id`` and ``component``, the least id of it, of components that were found ``in_numbers``."""
    named = graph.by_id(found).select(ID, number=ps.col(COMPONENT))
    least = named.group_by("number").agg(component=ps.min(ID)).named(f"{name}: least ids")
    return named.join(least, "number").named(f"{name}: named").select(ID, COMPONENT)
