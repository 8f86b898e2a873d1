"""The steps of a flow that Spark does itself, before rows are packed: Catalyst plans them with the input.

What may be pushed is decided from the plan alone (``pointstamp.pushing``), and here from the DataFrame: its
types must be exactly those that are declared, because rows that would be cast are cast by the workers. The
epoch of each row goes with it through all steps. A row whose epoch is none is never left out by a condition,
so that it is refused as it always is.
"""

from collections.abc import Mapping
from functools import reduce
from importlib import import_module

from pyspark.sql import Column, DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from pointstamp.flow.plan import Plan
from pointstamp.pushing.prefix import pushed
from pointstamp.pushing.steps import KeepRows, MakeColumns, Pushed, PushedPlan, Step, quoted
from pointstamp.rows.epochcolumn import EPOCH_MAX, EpochColumn


def pushed_into(plan: Plan, frames: Mapping[str, DataFrame], epochs: Mapping[str, EpochColumn]) -> PushedPlan:
    """What of a plan can be pushed into these DataFrames."""
    found = pushed(plan).inputs
    return pushed(plan, {name for name in found if _fits(found[name], frames[name], epochs.get(name))})


def with_steps(frame: DataFrame, steps: Pushed, epoch: EpochColumn | None) -> DataFrame:
    """A DataFrame after these steps, with the column of epochs last where no step has made it."""
    assert epoch is None or isinstance(epoch, str)
    return reduce(lambda before, step: _with_step(before, step, epoch), steps.steps, frame)


def _expression(frame: DataFrame, text: str) -> Column:
    """An expression for a DataFrame: one of Connect takes a kind of its own, whatever else is there."""
    is_connect = type(frame).__module__.startswith("pyspark.sql.connect")
    made: Column = import_module(f"pyspark.sql{'.connect' if is_connect else ''}.functions").expr(text)
    return made


def _with_step(frame: DataFrame, step: Step, epoch: str | None) -> DataFrame:
    if isinstance(step, KeepRows):
        return frame.where(step.condition if epoch is None else f"{step.condition} OR {_is_none(epoch)}")
    if isinstance(step, MakeColumns):
        beside = [] if epoch is None or epoch in step.schema.names else [quoted(epoch)]
        columns = [_expression(frame, text).alias(name) for name, text in step.columns]
        return frame.select(*columns, *(_expression(frame, text) for text in beside))
    keys = dict.fromkeys((*step.keys, *([] if epoch is None else [epoch])))
    parts = [_expression(frame, text).alias(name) for name, text in step.parts]
    return frame.groupBy(*map(quoted, keys)).agg(*parts)


def _is_none(epoch: str) -> str:
    """That what stands in a column of epochs is none."""
    column = quoted(epoch)
    return f"{column} IS NULL OR {column} < 0 OR {column} > {EPOCH_MAX}"


def _fits(steps: Pushed, frame: DataFrame, epoch: EpochColumn | None) -> bool:
    arrow = to_arrow_schema(frame.schema, timezone="UTC")
    for field in steps.declared:
        if arrow.field(field.name).type != field.type:
            return False
        words = frame.schema[field.name].dataType.simpleString()
        if "collate" in words or "char(" in words:  # texts that are equal there need not be equal here
            return False
    return epoch is None or (isinstance(epoch, str) and all(_keeps(step, epoch) for step in steps.steps))


def _keeps(step: Step, epoch: str) -> bool:
    """Whether the column of epochs goes through a step: as it is, or beside columns with other names."""
    if isinstance(step, KeepRows):
        return True
    made = dict(step.columns if isinstance(step, MakeColumns) else step.parts)
    if made.get(epoch, "") == quoted(epoch):
        return True
    return epoch.lower() not in {name.lower() for name in made}
