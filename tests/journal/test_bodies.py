"""Tables beside a message come back from it as if they had been encoded in it, and are not copied on the way.

- tables of all lengths that MessagePack writes in ways of its own, none, one and several;
- the memory of a large column: what is stored of it is that very memory.
"""

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from pointstamp.journal.snapshot_parts import Bodies


@pytest.mark.parametrize("rows", [[], [0], [3], [0, 5, 5], [9_000, 1, 20], [100_000]])
def test_tables_come_back_from_the_message(rows: list[int]) -> None:
    tables = [pa.table({"n": np.arange(count), "text": ["\xff" * 12] * count}) for count in rows]
    bodies = Bodies()
    message = {
        f"table {number}": [number, bodies.mark(table), 2**64 - 1] for number, table in enumerate(tables)
    }
    stored = b"".join(bodies.put_into(msgspec.msgpack.encode(message)))
    assert len(msgspec.msgpack.encode(msgspec.msgpack.decode(stored))) == len(stored)
    found = msgspec.msgpack.decode(stored)
    assert list(found) == list(message)
    for number, table in enumerate(tables):
        position, data, most = found[f"table {number}"]
        assert (position, most) == (number, 2**64 - 1)
        assert pa.ipc.open_stream(data).read_all().equals(table)


def test_a_large_column_is_not_copied() -> None:
    table = pa.table({"n": np.arange(10_000)})
    bodies = Bodies()
    parts = bodies.put_into(msgspec.msgpack.encode([bodies.mark(table)]))
    (large,) = (part for part in parts if len(part) == 80_000)
    (column,) = table.column("n").chunks
    assert np.frombuffer(large, np.int64).__array_interface__["data"][0] == column.buffers()[1].address
