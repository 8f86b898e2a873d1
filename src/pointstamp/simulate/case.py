"""A case: one simulated world of a flow, as short as a command line.

A case names a seed and how many workers; after shrinking also which of the user's epochs and rows are fed
(those that stay are numbered again from epoch 0), and which choices of the seed are really made. Where a flow
has custom times, the items of each input are numbered in place of epochs, and keep their times.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from pointstamp.arrow.schema import to_batches
from pointstamp.errors import FlowError, UsageError
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.simulate.feed import FedItem, Items
from pointstamp.simulate.network import parse_ranges, ranges_text
from pointstamp.verify.plan_shape import has_own_times

RowName: TypeAlias = tuple[str, int, int]
"""An input, the number of one of its items, which is the epoch, and a row of that."""


@dataclass(frozen=True, slots=True)
class Case:
    """One world; None keeps everything."""

    seed: int
    workers: int
    epochs: tuple[int, ...] | None = None
    """The numbers of the items of every input that are fed; an item is an epoch unless it has a time."""
    rows: tuple[RowName, ...] | None = None
    choices: frozenset[int] | None = None
    crashes: int | None = None
    """The most crashes; None for a world without a driver, in which nothing can crash."""

    def command(self, file: str) -> str:
        """The command that repeats it."""
        words = ["pointstamp", "simulate", file, "--replay", str(self.seed), "--workers", str(self.workers)]
        if self.crashes is not None:
            words += ["--crashes", str(self.crashes)]
        if self.epochs is not None:
            words += ["--epochs", ranges_text(self.epochs)]
        if self.rows is not None:
            words += ["--rows", rows_text(self.rows)]
        if self.choices is not None:
            words += ["--choices", ranges_text(self.choices)]
        return shlex.join(words)

    def select(self, inputs: Mapping[str, Items]) -> dict[str, Items]:
        """Return the input items of this case."""
        length = max((len(items) for items in inputs.values()), default=0)
        kept = range(length) if self.epochs is None else self.epochs
        return {
            name: [self._rows_of(name, number, items[number]) for number in kept if number < len(items)]
            for name, items in inputs.items()
        }

    def _rows_of(self, name: str, number: int, item: FedItem) -> FedItem:
        if self.rows is None:
            return item
        count = item.batch.num_rows
        rows = [row for owner, at, row in self.rows if (owner, at) == (name, number) and row < count]
        return item._replace(batch=item.batch.take(pa.array(rows, pa.int64())))


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
            f"expected rows as input=epoch.row,epoch.row;..., got {text!r}. Write them in this form."
        ) from None
    return tuple(rows)


def parse_numbers(what: str, text: str) -> tuple[int, ...]:
    """Numbers and ranges of a command line; a UsageError for anything else."""
    try:
        return tuple(parse_ranges(text))
    except ValueError:
        raise UsageError(
            f"expected {what} as numbers and ranges such as 0,3-5, got {text!r}. Write them in this form."
        ) from None


def prepared(plan: Plan, given: Any) -> dict[str, Items]:  # noqa: ANN401 - whatever a user wrote
    """A user's inputs as one batch per item, checked against what the flow declares."""
    declared = plan.named(NodeKind.INPUT)
    lists, each = ("items", "(time, rows)") if has_own_times(plan) else ("epochs", "rows")
    if not isinstance(given, Mapping):
        example = ", ".join(f"{name!r}: [{each}, {each}]" for name in declared)
        raise FlowError(
            f"the inputs of flow '{plan.name}' must be a mapping from names to lists of {lists}, got "
            f"{type(given).__name__}. Write {{{example}}}."
        )
    if given.keys() != declared.keys():
        raise FlowError(
            f"flow '{plan.name}' has the inputs {', '.join(map(repr, declared)) or 'none'}, got {lists} "
            f"for {', '.join(map(repr, given)) or 'none'}. Give a list of {lists} for each."
        )
    prepare = _timed_items if has_own_times(plan) else _epochs
    return {name: prepare(plan, name, given[name]) for name in declared}


def _epochs(plan: Plan, name: str, given: Any) -> Items:  # noqa: ANN401 - whatever a user wrote
    if not isinstance(given, list | tuple):
        raise FlowError(
            f"input '{name}' needs a list with the rows of each epoch, got {type(given).__name__}. Put "
            "brackets around the rows of a single epoch."
        )
    return [
        FedItem(_one_batch(plan, name, rows, f"input '{name}', epoch {epoch}"))
        for epoch, rows in enumerate(given)
    ]


def _timed_items(plan: Plan, name: str, given: Any) -> Items:  # noqa: ANN401 - whatever a user wrote
    if not isinstance(given, list | tuple):
        raise FlowError(
            f"input '{name}' needs a list of (time, rows) pairs, because the flow has custom times, got "
            f"{type(given).__name__}. Put brackets around a single pair."
        )
    items: list[FedItem] = []
    current = plan.root.minimum()
    for number, pair in enumerate(given):
        who = f"input '{name}', item {number}"
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise FlowError(
                f"{who}: items must be (time, rows) pairs, because the flow has custom times, got "
                f"{type(pair).__name__}. Write (time, rows)."
            )
        time, rows = pair
        _check_goes_on(plan, who, current, time)
        current = time
        items.append(FedItem(_one_batch(plan, name, rows, who), (time,)))
    return items


def _check_goes_on(plan: Plan, who: str, current: Any, time: Any) -> None:  # noqa: ANN401 - root times
    """Raise FlowError unless this is a time of the flow, at or after the time of the input."""
    try:
        hash(time)
        goes_on = plan.root.less_equal(current, time)
    except Exception as error:
        raise FlowError(
            f"{who}: {time!r} cannot be a time of flow '{plan.name}': {type(error).__name__}: {error}."
        ) from error
    if not goes_on:
        raise FlowError(
            f"{who} is at {time!r}, but the input is already at {current!r}. Give items in the order of "
            "their times."
        )


def _one_batch(plan: Plan, name: str, rows: Any, who: str) -> pa.RecordBatch:  # noqa: ANN401 - any rows
    schema = plan.named(NodeKind.INPUT)[name].outputs[0].schema
    batches = to_batches(rows, schema, who)
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=schema)
    return pa.concat_batches(batches) if len(batches) > 1 else batches[0]
