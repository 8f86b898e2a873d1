"""The owners of saved rows downstream of an exchange by a function.

Behind an exchange by columns a row of saved state belongs to the worker of the hash of its keys. Behind an
exchange by a function it belongs to the worker of its shard, which can be computed again only from what the
function is given. So rows can be dealt out to another number of workers if the function is given named
columns and the rows are kept by these columns; in every other case the owner is not known, and the change is
refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from pointstamp.errors import RecoveryError, SchemaError
from pointstamp.flow.pact import ExchangeBy, ExchangeByFunction, Pact
from pointstamp.flow.plan import Plan
from pointstamp.rows.schema import fit
from pointstamp.worker.routes import routes_of
from pointstamp.worker.sharding import workers_by
from pointstamp.worker.snapshots import place_of


@dataclass(frozen=True, slots=True)
class Dealer:
    """Deals out the rows that one operator keeps; ``pacts`` are those by which rows come to it."""

    pacts: tuple[ExchangeBy | ExchangeByFunction, ...]

    def owned(self, table: pa.Table, keys: Sequence[str], worker: int, workers: int, who: str) -> pa.Table:
        """The rows that belong to a worker; RecoveryError, beginning with ``who``, if that is not known."""
        if not table.num_rows:
            return table
        pact = self._pact(keys, workers, who)
        assert pact.columns is not None
        named = table.select(list(keys)).rename_columns(pact.columns.names).combine_chunks()
        try:
            batches = [fit(batch, pact.columns, "the saved keys") for batch in named.to_batches()]
        except SchemaError as error:
            raise RecoveryError(
                f"{who} has keys whose types differ from those of the exchange {pact} upstream: {error} "
                "Declare the types of those columns, or start with as many workers as before."
            ) from error
        owners = [workers_by(pact, batch, workers, f"exchange {pact}") for batch in batches]
        return table.filter(pa.array(np.concatenate(owners) == worker))

    def _pact(self, keys: Sequence[str], workers: int, who: str) -> ExchangeByFunction:
        """The function that says which worker owns a row, if there is one and it looks at the keys."""
        first = self.pacts[0]
        saved = f"{who} was saved by a number of workers other than {workers}"
        if not isinstance(first, ExchangeByFunction) or not self._agree():
            said = " and ".join(dict.fromkeys(map(str, self.pacts)))
            raise RecoveryError(
                f"{saved}, and rows reach it {said}: it is ambiguous by which of these its rows are "
                "partitioned. Start with as many workers as before, or exchange all inputs by one "
                "function of named columns."
            )
        if first.columns is None:
            named = ", ".join(map(repr, keys))
            raise RecoveryError(
                f"{saved} downstream of an exchange {first}, and its keys alone do not determine the "
                "worker that owns them. Start with as many workers as before, or name the columns that "
                f"the function reads and key the state by them, as in exchange({named}, by=...)."
            )
        if len(keys) != len(first.columns.names):
            raise RecoveryError(
                f"{saved} downstream of an exchange {first}, but its keys are {', '.join(keys)}, and the "
                "function needs the columns of the exchange. Start with as many workers as before, or "
                "key the state by the columns of the exchange."
            )
        return first

    def _agree(self) -> bool:
        """Whether every input brings rows of equal keys to the same worker."""
        functions = [each for each in self.pacts if isinstance(each, ExchangeByFunction)]
        return functions == list(self.pacts) and all(each.deals_as(functions[0]) for each in functions)


Dealers: TypeAlias = Mapping[str, Dealer]
"""By the place of each operator that has an exchange by a function before it."""


def dealers_of(plan: Plan) -> dict[str, Dealer]:
    """The dealers of all operators of a plan whose state is not dealt out by the hash of keys."""
    arriving: dict[str, list[Pact]] = {}
    for routes in routes_of(plan, plan.graph()).values():
        for route in routes:
            arriving.setdefault(place_of(plan.nodes[route.reader.operator]), []).append(route.pact)
    return {
        place: Dealer(tuple(each for each in pacts if isinstance(each, ExchangeBy | ExchangeByFunction)))
        for place, pacts in arriving.items()
        if any(isinstance(each, ExchangeByFunction) for each in pacts)
    }
