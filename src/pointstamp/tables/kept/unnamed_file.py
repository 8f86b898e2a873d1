"""A file without a name, made of places that are written on their own, and mapped when all is written.

It exists as long as it is open or mapped, and is removed with the process. Arrays are written as they are in
memory, each place from its beginning on.
"""

import errno
import mmap
import os
import tempfile
import weakref
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.errors import StorageError

# As Arrow wants its buffers.
_ALIGNMENT: Final = 64


class UnnamedFile:
    """A file without a name, of places that are written on their own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.written_bytes = 0
        self.end = 0
        try:
            with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
                self._handle = os.dup(file.fileno())
        except OSError as error:
            raise _refusal(folder, error) from error
        # A merge may be given up at any moment: when its worker ends.
        self._close = weakref.finalize(self, os.close, self._handle)

    def place(self, room_bytes: int) -> int:
        """Where so many bytes may be written."""
        begin = self.end
        self.end += -(-room_bytes // _ALIGNMENT) * _ALIGNMENT
        return begin

    def write(self, at: int, values: npt.NDArray[Any]) -> int:
        """Write an array; return how many bytes it has."""
        data = np.ascontiguousarray(values).view(np.uint8).data
        done = 0
        try:
            while done < len(data):
                done += os.pwrite(self._handle, data[done:], at + done)
        except OSError as error:
            raise _refusal(self._folder, error) from error
        self.written_bytes += done
        return done

    def mapped(self) -> pa.Buffer:
        """All of it, as memory that cannot be written; the file is there as long as that is."""
        try:
            os.ftruncate(self._handle, max(self.end, 1))
            whole = mmap.mmap(self._handle, 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise _refusal(self._folder, error) from error
        self._close()
        return pa.py_buffer(whole)


class FilePlace:
    """A part of a file that is written from its beginning on."""

    def __init__(self, file: UnnamedFile, room_bytes: int) -> None:
        self._file = file
        self.begin = file.place(room_bytes)
        self.size = 0

    def add(self, values: npt.NDArray[Any]) -> None:
        """Write values behind those that are there."""
        self.size += self._file.write(self.begin + self.size, values)

    def read(self, whole: pa.Buffer) -> pa.Buffer:
        """What was written."""
        return whole.slice(self.begin, self.size)


def _refusal(folder: str, error: OSError) -> StorageError:
    what = "its disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else str(error.strerror)
    return StorageError(
        f"what is beyond the memory limit cannot be written to the folder '{folder}': {what}. Make room "
        "there, name another folder, or raise the limit; what was saved is as it was."
    )
