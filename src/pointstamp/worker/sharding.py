"""Call a user's sharding function and check its answer.

A shard is any whole number from 0 on, and its worker is ``shard % workers``, so that a function need not know
how many workers there are, and rows of one shard meet whatever their number. A function that answers anything
else, or raises, is an error that names the reader behind the exchange and the function's line.
"""

import sys
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.errors import OperatorError, PointstampError
from pointstamp.flow.pact import ExchangeByFunction, ShardFunction
from pointstamp.worker.lineage import LINEAGE, end_copy
from pointstamp.worker.userline import line_words, user_line

_SAMPLE_ROWS: Final = 3


def workers_by(
    pact: ExchangeByFunction, rows: pa.RecordBatch, workers: int, who: str
) -> npt.NDArray[np.intp]:
    """The worker of each row by its shard; OperatorError, which begins with ``who``, for bad answers."""
    given = rows if pact.columns is None else rows.select(pact.columns.names)
    depth = LINEAGE.depth
    try:
        answer = pact.function(given)
    except PointstampError:
        raise
    except (Exception, SystemExit) as error:  # as for operators: who exits means the flow
        line = user_line(error)
        where = "" if line is None else f" ({line_words(line)})"
        raise OperatorError(
            f"{who}: the function failed: {type(error).__name__}: {error}{where}; the batch has "
            f"{given.num_rows} rows and begins {given.slice(0, _SAMPLE_ROWS).to_pylist()}"
        ) from error
    finally:
        if LINEAGE.depth != depth:
            end_copy(sys.exc_info()[1])
    shards = _numbers(answer, f"{who}: the function{_defined(pact.function)}", rows.num_rows)
    return (shards % np.uint64(workers)).astype(np.intp)


def _numbers(answer: Any, who: str, rows: int) -> npt.NDArray[np.uint64]:  # noqa: ANN401 - whatever came
    """The answer as whole numbers from 0 on, one for each row."""
    needed = f"{who} must give the shard of each of {rows} rows, a whole number from 0 up, but gave"
    if isinstance(answer, pa.ChunkedArray):
        answer = answer.combine_chunks()
    if not isinstance(answer, pa.Array):
        try:
            answer = pa.array(answer)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise OperatorError(
                f"{needed} {type(answer).__name__}: {error}. Give an Arrow or numpy array of integers, or a "
                "list."
            ) from error
    if len(answer) != rows:
        raise OperatorError(f"{needed} {len(answer)} of them. Give one for each row, in their order.")
    if answer.null_count:
        raise OperatorError(
            f"{needed} {answer.null_count} nulls. Return a shard for rows without a key, too."
        )
    if not pa.types.is_integer(answer.type):
        raise OperatorError(f"{needed} {answer.type}. Round or cast to integers.")
    numbers = answer.to_numpy(zero_copy_only=False)
    if len(numbers) and numbers.min() < 0:
        raise OperatorError(
            f"{needed} {numbers.min()}. Take the remainder by a number of shards, or the absolute value."
        )
    shards: npt.NDArray[np.uint64] = numbers.astype(np.uint64)
    return shards


def _defined(function: ShardFunction) -> str:
    """Where a function was written, where that is known."""
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"
