"""Run a batch through a chain of operators before its reader.

See ``pointstamp.flow.chains``. Each of them is an instance as any other, with its own rows, calls and errors,
but none is ever woken: the operator that ends the chain is, and hands on what has come for it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from pointstamp.topology.domain import Time

if TYPE_CHECKING:
    from pointstamp.worker.instance import Instance


def through(chain: "Sequence[Instance]", time: Time, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Return the output of a chain for a batch, at the batch's time."""
    batches = [batch]
    for instance in chain:
        for each in batches:
            instance.receive(0, time, each)
        instance.authority.act_for(None, None)
        output = instance.outputs[0]
        sent, output.sent = output.sent, []
        batches = [made for _, made in sent]
        instance.rows_out += sum([made.num_rows for made in batches])
        if not batches:
            break
    return batches
