"""What a run has published: one file, written last and at once, that lists every file of every output.

Until the manifest is there nothing is published; with it everything is (object stores have no rename, so the
manifest is the commit point). Whoever reads takes what it lists and nothing else: files that a failed run has
left, or that somebody else has put into the folder, are not part of the output. Each file is listed with its
rows, its size and its CRC-32, so that a copy can be checked.

A folder is published into once: a second run is refused. The names of a run's files hold the run's own name,
so that a worker that outlives its run writes nothing that is ever read. Not here: publishing epoch by epoch,
which needs a chain of manifests and a fencing token.
"""

import secrets
from typing import Any, Final

import msgspec

from pointstamp.errors import FlowError, TransportError
from pointstamp.spark.place import Place

MANIFEST: Final = "_pointstamp.json"
"""The manifest's name; Spark does not read files whose names begin so."""

FORMAT_VERSION: Final = 1


class PublishedFile(msgspec.Struct, frozen=True):
    """A file of an output: its path below the folder, the epoch of all its rows, and what it must hold."""

    path: str
    epoch: int
    rows: int
    size_bytes: int
    crc32: int


class PublishedOutput(msgspec.Struct, frozen=True):
    """An output: its columns as Spark writes a schema in JSON, the epoch first, and its files."""

    columns: dict[str, Any]
    files: list[PublishedFile]


class Manifest(msgspec.Struct, frozen=True):
    """Everything that a run has published."""

    flow: str
    run: str
    outputs: dict[str, PublishedOutput]
    format_version: int = FORMAT_VERSION


def new_run_name() -> str:
    """A name that no other run has."""
    return secrets.token_hex(8)


def check_unpublished(place: Place) -> None:
    """Refuse a folder that has been published into."""
    if place.sizes([MANIFEST])[0] is not None:
        raise _taken(place)


def publish(place: Place, manifest: Manifest) -> None:
    """Look whether all files are there as they were written, then commit."""
    _check_files(place, manifest, _NOT_SHARED)
    content = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    try:
        place.create(MANIFEST, content)
    except FileExistsError:
        raise _taken(place) from None


def discard(place: Place, run: str) -> None:
    """Remove the files of a run that has failed, unless it was interrupted after its commit."""
    if run.encode() not in (place.read(MANIFEST) or b""):
        place.remove(run)


def published(path: str) -> Manifest:
    """What has been published in a folder; its files have been looked for, and have their sizes."""
    place = Place.at(path)
    content = place.read(MANIFEST)
    if content is None:
        raise FlowError(f"'{path}' holds no {MANIFEST}: nothing has been published there.")
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except msgspec.DecodeError as error:
        raise FlowError(f"'{path}/{MANIFEST}' cannot be read as a manifest: {error}.") from error
    if manifest.format_version != FORMAT_VERSION:
        raise FlowError(
            f"'{path}/{MANIFEST}' has format {manifest.format_version}, and this pointstamp reads "
            f"{FORMAT_VERSION}. Read it with the pointstamp that wrote it."
        )
    _check_files(place, manifest, "It was removed or changed after it was published.")
    return manifest


_NOT_SHARED: Final = (
    "The workers have written it, so the folder is not one that driver and executors share. Give path= on a "
    "file system that all of them reach."
)


def _check_files(place: Place, manifest: Manifest, why: str) -> None:
    files = [file for output in manifest.outputs.values() for file in output.files]
    for file, size in zip(files, place.sizes([file.path for file in files]), strict=True):
        if size != file.size_bytes:
            came = "is not there" if size is None else f"has {size} bytes"
            raise TransportError(
                f"'{place.address}/{file.path}' must have {file.size_bytes} bytes and {came}. {why}"
            )


def _taken(place: Place) -> FlowError:
    return FlowError(
        f"'{place.address}' holds the output of another run ({MANIFEST} is there), and runs do not mix. Give "
        "another path, or remove the folder first."
    )
