"""The outputs of ``pointstamp run`` that are tables: what their changes add up to when the run is over."""

from collections.abc import Mapping

import pyarrow as pa

from pointstamp.tables.kept.value import copies, sum_of, tables_among


class FinalTables:
    """Adds the changes of tables up, epoch by epoch; what waits is never more than what there is."""

    def __init__(self, schemas: Mapping[str, pa.Schema]) -> None:
        self._schemas = {name: schemas[name] for name in tables_among(schemas)}
        self._totals = {name: sum_of([], schema) for name, schema in self._schemas.items()}
        self._waiting: dict[str, list[pa.Table]] = {name: [] for name in self._schemas}

    def add(self, name: str, changes: pa.Table) -> None:
        """Take the changes of an epoch; those of outputs that are no tables are left out."""
        if name not in self._schemas:
            return
        self._waiting[name].append(changes)
        if sum(each.num_rows for each in self._waiting[name]) > self._totals[name].num_rows:
            self._add_up(name)

    def tables(self) -> dict[str, pa.Table]:
        """The rows of each table as they are now."""
        for name in self._schemas:
            self._add_up(name)
        return {name: copies(total, f"output '{name}'") for name, total in self._totals.items()}

    def _add_up(self, name: str) -> None:
        self._totals[name] = sum_of([self._totals[name], *self._waiting[name]], self._schemas[name])
        self._waiting[name].clear()
