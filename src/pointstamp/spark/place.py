"""Where a run's files lie: a folder on any file system that pyarrow knows, reached alike from all hosts.

A path without a scheme is a folder of this host's file system; one with a scheme (``s3a://``, ``gs://``,
``hdfs://``, ``abfs://``, ``file://``) is resolved by ``pyarrow.fs``, on the driver and again on each worker:
the string travels, the connection does not. This is the only file that knows file systems; another provider
of them (fsspec through ``pyarrow.fs.PyFileSystem``) would be added in ``Place.at`` and nowhere else.

Invariant: ``create`` puts a whole file in its place or none, and never replaces one. On a local file system
that is a hard link, which fails where the name is taken; on an object store the upload becomes visible when
it is finished; on HDFS it is a rename, which refuses a name that is taken. An object store cannot refuse, so
two drivers that publish into one folder in the same instant are told apart there only by a look beforehand.
"""

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
from pyarrow import fs

from pointstamp.errors import FlowError

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
# Spark reads these characters in a path as a pattern.
_PATTERN: Final = re.compile(r"[*?{}\[\]\\]")
_OBJECT_STORES: Final = ("s3", "gcs", "abfs")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder: the file system, its path there, and the address by which Spark finds it."""

    files: Any  # a pyarrow.fs.FileSystem
    root: str
    address: str

    @classmethod
    def at(cls, path: str) -> "Place":
        """The folder of this path, which need not exist yet."""
        if _PATTERN.search(path):
            raise FlowError(
                f"the output path '{path}' has one of the characters * ? {{ }} [ ] \\, which Spark reads as "
                "a pattern. Choose a path without them."
            )
        if not _SCHEME.match(path):
            root = os.path.abspath(path)
            # With the scheme, because a path without one is HDFS for Spark where that is the default.
            return cls(fs.LocalFileSystem(), root, f"file://{root}")
        try:
            # Hadoop's name for S3, which Spark needs and Arrow does not know.
            files, root = fs.FileSystem.from_uri(re.sub("^s3a:", "s3:", path))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise FlowError(
                f"the output path '{path}' cannot be opened: {error}. Give a folder of this host, or an "
                "address that pyarrow.fs.FileSystem.from_uri understands (file, s3, gs, abfs, hdfs)."
            ) from error
        return cls(files, root.rstrip("/"), path.rstrip("/"))

    @property
    def is_local(self) -> bool:
        """Whether the files lie in a file system of this host."""
        return bool(self.files.type_name == "local")

    def path(self, name: str) -> str:
        """The path of a file, for the file system."""
        return f"{self.root}/{name}"

    def open(self, name: str) -> Any:  # noqa: ANN401 - a pyarrow.NativeFile
        """A new file to be written; its folders are made."""
        path = self.path(name)
        if self.files.type_name not in _OBJECT_STORES:  # these know no folders
            self.files.create_dir(path.rpartition("/")[0], recursive=True)
        return self.files.open_output_stream(path)

    def create(self, name: str, content: bytes) -> None:
        """Put a whole file in its place at once; FileExistsError where there is one."""
        path = self.path(name)
        if self.is_local:
            _create_local(Path(path), content)
            return
        if self.sizes([name])[0] is not None:
            raise FileExistsError(path)
        is_atomic = self.files.type_name in _OBJECT_STORES
        with self.open(name if is_atomic else f"{name}.new") as file:
            file.write(content)
        if not is_atomic:
            self.files.move(f"{path}.new", path)

    def read(self, name: str) -> bytes | None:
        """What a file holds, or None where there is none."""
        try:
            with self.files.open_input_stream(self.path(name)) as file:
                content: bytes = file.read()
                return content
        except FileNotFoundError:
            return None

    def sizes(self, names: list[str]) -> list[int | None]:
        """The sizes of files in bytes; None where there is no file."""
        found = self.files.get_file_info([self.path(name) for name in names])
        return [each.size if each.type == fs.FileType.File else None for each in found]

    def remove(self, part: str) -> None:
        """Remove the files below this folder that have this part in their names; what is gone is gone."""
        below = fs.FileSelector(self.root, allow_not_found=True, recursive=True)
        for each in self.files.get_file_info(below):
            if each.type == fs.FileType.File and part in each.base_name:
                self.files.delete_file(each.path)


def folder_name(name: str) -> str:
    """A folder's name for an output's name, whatever characters that has.

    >>> folder_name("components"), folder_name("../a b"), folder_name("_hidden")
    ('components', '%2E.%2Fa%20b', '%5Fhidden')
    """
    quoted = quote(name, safe="")
    # Spark does not see names that begin so; and "..", a name of an output, is another folder.
    return f"%{ord(quoted[0]):02X}{quoted[1:]}" if quoted[:1] in ("_", ".") else quoted


def _create_local(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, new = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(new, 0o644)  # mkstemp makes it its owner's alone, and others may read what is published
        os.link(new, path)
    finally:
        os.unlink(new)
