"""Shared arrangements: operators that index the same table by the same key.

An operator is built with ``arranged``: under the name of each arrangement what it is of. Two that say the
same are given the same changes on every worker, and a worker lets them share.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from pointstamp.arrangement.arrangement import Arrangement
from pointstamp.arrangement.ordering import Ordered
from pointstamp.flow.outlet import wiring
from pointstamp.flow.physical_stream import PhysicalStream
from pointstamp.flow.plan import Node, Plan
from pointstamp.operators.interface import PassesOn
from pointstamp.operators.spec import spec_of
from pointstamp.state.pieces import Piece
from pointstamp.topology.ports import SourcePort


@dataclass(frozen=True, slots=True)
class TableByKey:
    """The changes of a table, arranged by some columns."""

    source: SourcePort
    keys: tuple[str, ...]
    has_nulls: bool = False
    """Whether rows are kept that have a null in their key."""
    order: Ordered | None = None
    """What the rows of a key are in order of, if they are."""


def arranged_by(
    deltas: PhysicalStream, keys: tuple[str, ...], *, has_nulls: bool = False, order: Ordered | None = None
) -> TableByKey:
    """What an operator keeps that arranges these changes by these columns.

    An operator that says that it ``PassesOn`` what comes sends the changes that it is given, so both are one
    table.
    """
    at = wiring(deltas)
    source = at.source
    nodes = at.builder.plan.nodes
    while isinstance(kind := spec_of((node := nodes[source.operator]).logic).kind, type) and issubclass(
        kind, PassesOn
    ):
        (port,) = node.inputs
        assert port.source is not None, "only what is wired passes anything on"
        source = port.source
    return TableByKey(source, keys, has_nulls, order)


class Arrangements:
    """The arrangements of an operator, by name; some may be read from where another operator keeps them."""

    def __init__(self, own: Mapping[str, Arrangement], arranged: Mapping[str, TableByKey]) -> None:
        self._own = own
        self._arranged = arranged

    def share_with(self, others: dict[TableByKey, Arrangement]) -> None:
        """Read what others of this worker keep already, and let them read the rest."""
        for name, table in self._arranged.items():
            first = others.setdefault(table, self._own[name])
            if first is not self._own[name]:
                self._own[name].share(first)

    def save(self, *, changes_only: bool) -> dict[str, Piece]:
        """What is kept here."""
        return {
            name: each.save(changes_only=changes_only)
            for name, each in self._own.items()
            if not each.is_borrowed
        }

    def load(self, operator: str, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with what was kept here; what was kept elsewhere comes from there."""
        for name, each in self._own.items():
            if name in pieces:
                each.load(pieces[name])
            else:
                each.expect(operator)


def shared_in_words(plan: Plan, node: Node) -> list[str]:
    """What an operator shares with others: which of its arrangements, by which columns, with whom."""
    made = []
    for name, table in _arranged(node).items():
        others = [
            other.name
            for other in plan.nodes
            if other.index != node.index and table in _arranged(other).values()
        ]
        others += [f"its {side}" for side, own in _arranged(node).items() if own == table and side != name]
        if others:
            by = ", ".join(table.keys)
            made.append(f"{name}, by {by}, with {', '.join(dict.fromkeys(others))}")
    return made


def _arranged(node: Node) -> Mapping[str, TableByKey]:
    found: Mapping[str, TableByKey] = spec_of(node.logic).parameters.get("arranged", {})
    return found
