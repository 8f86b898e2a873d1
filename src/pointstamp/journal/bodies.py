"""Store the rows of a message next to it, without copies.

A message of MessagePack is encoded with a mark in the place of each table. Then each mark is replaced by the
bytes of its table, as Arrow writes them: views of the very memory, or the mapped file, in which rows lie. So
what is larger than memory can be saved. The reader of the message sees bytes, as if they had been encoded
there.
"""

import struct
from typing import Final

import pyarrow as pa

# Texts never have such a byte, and numbers not so many of them.
_MARK: Final = struct.Struct(">12sI")
_FILL: Final = b"\xff" * 12
# How MessagePack begins bytes: fewer than 2^8, 2^16, 2^32.
_SHORT, _MIDDLE, _LONG = struct.Struct(">BB"), struct.Struct(">BH"), struct.Struct(">BI")


class Bodies:
    """The tables of one message, in the order in which it names them."""

    def __init__(self) -> None:
        self._tables: list[list[memoryview]] = []

    def mark(self, table: pa.Table) -> bytes:
        """The placeholder of a table in a message."""
        sink = _Views()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        self._tables.append(sink.views)
        return _MARK.pack(_FILL, len(self._tables) - 1)

    def put_into(self, message: bytes) -> list[bytes | memoryview]:
        """The message with all tables in the places of their marks, in parts."""
        parts: list[bytes | memoryview] = []
        at = 0
        for number, views in enumerate(self._tables):
            mark = _head(_MARK.size) + _MARK.pack(_FILL, number)
            begin = message.index(mark, at)
            parts.append(message[at:begin] + _head(sum(map(len, views))))
            parts.extend(views)
            at = begin + len(mark)
        return [*parts, message[at:]]


class _Views:
    """A file for Arrow that keeps what is written as it is given, without a copy."""

    closed = False

    def __init__(self) -> None:
        self.views: list[memoryview] = []

    def write(self, data: bytes | pa.Buffer) -> int:
        view = memoryview(data).cast("B")
        self.views.append(view)
        return len(view)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def _head(length: int) -> bytes:
    if length < 1 << 8:
        return _SHORT.pack(0xC4, length)
    return _MIDDLE.pack(0xC5, length) if length < 1 << 16 else _LONG.pack(0xC6, length)
