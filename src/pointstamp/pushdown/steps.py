"""Pushed-down steps as data: SQL texts and the columns after each."""

from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from pointstamp.flow.plan import Plan


@dataclass(frozen=True, slots=True)
class KeepRows:
    """Only the rows for which a condition holds."""

    operator: str
    condition: str
    schema: pa.Schema

    def __str__(self) -> str:
        return f"where {self.condition}"


@dataclass(frozen=True, slots=True)
class MakeColumns:
    """Each row with these columns, by name, in place of its own."""

    operator: str
    columns: tuple[tuple[str, str], ...]
    schema: pa.Schema

    def __str__(self) -> str:
        return f"select {_listed(self.columns)}"


@dataclass(frozen=True, slots=True)
class MakeParts:
    """For each key one row, with the parts of its aggregates that these rows make, by epoch."""

    operator: str
    keys: tuple[str, ...]
    parts: tuple[tuple[str, str], ...]
    schema: pa.Schema

    def __str__(self) -> str:
        return f"select {_listed(self.parts)} group by {', '.join(self.keys)}"


Step: TypeAlias = KeepRows | MakeColumns | MakeParts


@dataclass(frozen=True, slots=True)
class Pushed:
    """The steps on the rows of one input before a worker reads them, in order."""

    declared: pa.Schema
    """The columns of the input as the flow declares them."""
    steps: tuple[Step, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns that are left for the workers."""
        return self.steps[-1].schema


@dataclass(frozen=True, slots=True)
class PushedPlan:
    """A plan without what is pushed, and what is pushed of each input."""

    plan: Plan
    inputs: dict[str, Pushed]


def _listed(columns: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(made if made == quoted(name) else f"{made} as {quoted(name)}" for name, made in columns)


def quoted(name: str) -> str:
    """The name of a column as SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"
