"""A case: one world of one flow, said in so few words that it fits on a command line.

A case names a seed and how many workers; after shrinking also which of the user's epochs and rows are fed
(those that stay are numbered anew from epoch 0), and which choices of the seed are really made.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from pointstamp.check.choices import parse_ranges, ranges_text
from pointstamp.check.feed import Epochs
from pointstamp.dataflow.plan import Kind, Plan
from pointstamp.dataflow.schema import to_batches
from pointstamp.errors import FlowError, UsageError
from pointstamp.topology.domain import EPOCHS

RowName: TypeAlias = tuple[str, int, int]
"""An input, one of its epochs, and a row of that."""


@dataclass(frozen=True, slots=True)
class Case:
    """One world; None keeps everything."""

    seed: int
    workers: int
    epochs: tuple[int, ...] | None = None
    rows: tuple[RowName, ...] | None = None
    choices: frozenset[int] | None = None

    def command(self, file: str) -> str:
        """The command that repeats it."""
        words = ["pointstamp", "simulate", file, "--replay", str(self.seed), "--workers", str(self.workers)]
        if self.epochs is not None:
            words += ["--epochs", ranges_text(self.epochs)]
        if self.rows is not None:
            words += ["--rows", rows_text(self.rows)]
        if self.choices is not None:
            words += ["--choices", ranges_text(self.choices)]
        return shlex.join(words)

    def select(self, inputs: Mapping[str, Epochs]) -> dict[str, Epochs]:
        """What this case feeds of all there is."""
        length = max((len(epochs) for epochs in inputs.values()), default=0)
        kept = range(length) if self.epochs is None else self.epochs
        return {
            name: [self._rows_of(name, epoch, epochs[epoch]) for epoch in kept if epoch < len(epochs)]
            for name, epochs in inputs.items()
        }

    def _rows_of(self, name: str, epoch: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.rows is None:
            return batch
        rows = [row for owner, at, row in self.rows if (owner, at) == (name, epoch) and row < batch.num_rows]
        return batch.take(pa.array(rows, pa.int64()))


def rows_text(rows: Sequence[RowName]) -> str:
    """Rows for a command line, by input: ``words=0.3,1.0``.

    >>> rows_text([("words", 0, 3), ("edges", 0, 1), ("words", 1, 0)])
    'words=0.3,1.0;edges=0.1'
    """
    by_input: dict[str, list[str]] = {}
    for name, epoch, row in rows:
        by_input.setdefault(name, []).append(f"{epoch}.{row}")
    return ";".join(f"{name}={','.join(numbers)}" for name, numbers in by_input.items())


def parse_rows(text: str) -> tuple[RowName, ...]:
    """The rows that ``rows_text`` wrote; a UsageError for anything else."""
    rows: list[RowName] = []
    try:
        for part in filter(None, text.split(";")):
            name, _, numbers = part.rpartition("=")
            for number in numbers.split(","):
                epoch, row = number.split(".")
                rows.append((name, int(epoch), int(row)))
    except ValueError:
        raise UsageError(
            f"rows are written as input=epoch.row,epoch.row;..., and came as {text!r}."
        ) from None
    return tuple(rows)


def parse_numbers(what: str, text: str) -> tuple[int, ...]:
    """Numbers and ranges of a command line; a UsageError for anything else."""
    try:
        return tuple(parse_ranges(text))
    except ValueError:
        raise UsageError(f"{what} are written as numbers and ranges, 0,3-5, and came as {text!r}.") from None


def check_epochs(plan: Plan) -> None:
    """Raise FlowError for a flow with times of its own: nothing here knows how to feed or to judge those."""
    if plan.root != EPOCHS:
        raise FlowError(
            f"flow '{plan.name}' has times of its own; only flows with epochs can be simulated. Leave out "
            "times= where the flow is made."
        )


def prepared(plan: Plan, given: Any) -> dict[str, Epochs]:  # noqa: ANN401 - whatever a user wrote
    """A user's inputs as one batch per input and epoch, checked against what the flow declares."""
    check_epochs(plan)
    declared = plan.named(Kind.INPUT)
    if not isinstance(given, Mapping):
        raise FlowError(
            f"the inputs of flow '{plan.name}' must be a mapping from names to lists of epochs, and came as "
            f"{type(given).__name__}. Write {{{', '.join(f'{name!r}: [rows, rows]' for name in declared)}}}."
        )
    if given.keys() != declared.keys():
        raise FlowError(
            f"flow '{plan.name}' has the inputs {', '.join(map(repr, declared)) or 'none'}, and was given "
            f"epochs for {', '.join(map(repr, given)) or 'none'}. Give a list of epochs for each."
        )
    inputs: dict[str, Epochs] = {}
    for name, node in declared.items():
        epochs = given[name]
        if not isinstance(epochs, list | tuple):
            raise FlowError(
                f"input '{name}' needs a list with the rows of each epoch, and came as "
                f"{type(epochs).__name__}. Put brackets around the rows of a single epoch."
            )
        schema = node.outputs[0].schema
        inputs[name] = [
            _one_batch(to_batches(rows, schema, f"input '{name}', epoch {epoch}"), schema)
            for epoch, rows in enumerate(epochs)
        ]
    return inputs


def _one_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=schema)
    return pa.concat_batches(batches) if len(batches) > 1 else batches[0]
