"""Handle undeclared columns: reject, warn or ignore.

A column that looks like the change of a row (``diff``, ``op``, ``_change_type``, ``is_deleted``) is an
error: without it a deletion would be read as an insertion. Any other is a warning, once for an input and
these columns in a process. ``extra_columns="ignore"`` on the input accepts both without a word.

How an input treats them travels to its source in the metadata of the schema that rows are read with.
"""

import logging
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias, get_args

import pyarrow as pa

from pointstamp.errors import FlowError, SchemaError

ExtraColumns: TypeAlias = Literal["warn", "ignore"]
"""What becomes of columns that an input does not declare: a warning, or nothing."""

_WEIGHTS: Final = ("diff", "weight")
_OPERATIONS: Final = (
    *("op", "operation", "op_type", "change_type", "row_kind", "rowkind"),
    *("cdc_operation", "$operation"),
)
_DELETIONS: Final = (
    *("deleted", "is_deleted", "isdeleted", "deleted_at", "deletedat", "delete_flag", "deleted_flag"),
    *("fivetran_deleted", "ab_cdc_deleted_at"),
)
CHANGE_NAMES: Final = (*_WEIGHTS, *_OPERATIONS, *_DELETIONS)
"""What a column that says the change of a row is called, in any case and after underscores."""

_EXTRA: Final = b"pointstamp extra columns"
_WARNED_MAX: Final = 10_000
_warned: dict[tuple[str, frozenset[str]], None] = {}
_log = logging.getLogger("pointstamp.run")


def check_extra_columns(who: str, extra: str) -> None:
    """Reject an unknown value of ``extra_columns``."""
    if extra not in get_args(ExtraColumns):
        raise FlowError(
            f"{who}: extra_columns must be 'warn' or 'ignore', got {extra!r}. Choose one of these."
        )


def with_extra(schema: pa.Schema, extra: ExtraColumns) -> pa.Schema:
    """The schema, saying how columns beyond it are treated."""
    return schema if extra == "warn" else schema.with_metadata({_EXTRA: extra.encode()})


def extra_of(schema: pa.Schema) -> ExtraColumns:
    """The treatment of undeclared columns."""
    return "ignore" if (schema.metadata or {}).get(_EXTRA) == b"ignore" else "warn"


def is_change_name(name: str) -> bool:
    """Whether a column of this name looks like the change of a row.

    >>> [is_change_name(name) for name in ("diff", "_change_type", "__OP", "price")]
    [True, True, True, False]
    """
    return name.lower().lstrip("_") in CHANGE_NAMES


def check_undeclared(
    names: Iterable[str],
    declared: Iterable[str],
    who: str,
    extra: ExtraColumns = "warn",
    *,
    known: Iterable[str] = (),
) -> None:
    """Reject undeclared columns that look like changes; warn once of others, except ``known``."""
    if extra == "ignore":
        return
    expected = {*declared, *known}
    undeclared = [name for name in names if name not in expected]
    if not undeclared:
        return
    if suspicious := [name for name in undeclared if is_change_name(name)]:
        raise SchemaError(_refusal(who, suspicious[0]))
    key = (who, frozenset(undeclared))
    if key in _warned:
        return
    if len(_warned) >= _WARNED_MAX:
        _warned.clear()
    _warned[key] = None
    listed = ", ".join(repr(name) for name in sorted(undeclared)[:5])
    more = f" and {len(undeclared) - 5} more" if len(undeclared) > 5 else ""
    _log.warning(
        "%s: the rows have %s%s, which the schema does not declare; these columns are not read. Declare "
        "them, or set extra_columns='ignore' on the input.",
        who,
        listed,
        more,
    )


def _refusal(who: str, name: str) -> str:
    plain = name.lower().lstrip("_")
    if plain in _WEIGHTS:
        way = f"running(weight={name!r}), or in SQL tblproperties ('weight' = '{name}')"
    elif plain in _OPERATIONS:
        way = f"running(operation={name!r}), or in SQL tblproperties ('operation' = '{name}')"
    else:
        way = f"flow.table(..., key=..., deleted={name!r})"
    return (
        f"{who}: the rows have a column {name!r}, which the schema does not declare and which looks like the "
        "change of each row; without it, deletions would be read as insertions. Declare the column and use "
        f"{way}. If it is not a change, set extra_columns='ignore' on the input."
    )
