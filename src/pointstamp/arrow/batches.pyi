from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Column: TypeAlias = npt.NDArray[Any] | pa.Array

def columns_of(batch: pa.RecordBatch, dtypes: tuple[np.dtype[Any] | None, ...]) -> list[_Column | None]: ...
def batch_of(columns: Sequence[_Column], schema: pa.Schema) -> pa.RecordBatch: ...
