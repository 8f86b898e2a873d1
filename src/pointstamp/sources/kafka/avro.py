"""Decode Avro values in the wire format of a schema registry.

Schemas are given by number, or asked of a registry by its address, each once in a process.
"""

import base64
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import unquote
from urllib.request import Request, urlopen

import pyarrow as pa

from pointstamp.errors import FlowError, PointstampError, StorageError
from pointstamp.redaction import RedactedRepr, harmless, redact, redact_text
from pointstamp.sources.kafka.decoding import HEADER_BYTES, NO_HEADER, Decoded, decode_each

_ANSWER_SECONDS_MAX: Final = 30.0


@dataclass(frozen=True, slots=True, repr=False)
class AvroDecoder(RedactedRepr):
    """Decodes values by the schemas of a registry: its address, or a mapping of numbers to schemas."""

    registry: str | Mapping[int, Any]

    def __call__(self, values: Sequence[bytes | None], schema: pa.Schema) -> Decoded:
        """Avro records, with the columns of a schema."""
        bad = (PointstampError, ValueError, LookupError, EOFError, TypeError)
        return decode_each(values, schema, self._decoded, bad)

    def _decoded(self, value: bytes) -> dict[str, Any]:
        from fastavro import schemaless_reader

        if value[:1] != b"\0" or len(value) < HEADER_BYTES:
            raise ValueError(NO_HEADER)
        number = int.from_bytes(value[1:HEADER_BYTES], "big")
        found = schemaless_reader(io.BytesIO(value[HEADER_BYTES:]), self._schema(number), None)
        if not isinstance(found, dict):
            raise ValueError("it is not an Avro record")
        return found

    def _schema(self, number: int) -> Any:  # noqa: ANN401 - as fastavro has it
        if isinstance(self.registry, str):
            return _asked(self.registry, number)
        if number not in self.registry:
            raise ValueError(f"its schema id is {number}, which registry= does not contain")
        return _parsed(json.dumps(self.registry[number]))


def check_avro_installed() -> None:
    """FlowError where fastavro is not installed."""
    try:
        import fastavro  # noqa: F401 - whether it is there
    except ImportError as error:
        raise FlowError(
            "Avro needs the package fastavro, which is not installed. Install pointstamp[kafka]."
        ) from error


@cache
def _parsed(text: str) -> Any:  # noqa: ANN401 - as fastavro has it
    from fastavro import parse_schema

    return parse_schema(json.loads(text))


@cache
def _asked(registry: str, number: int) -> Any:  # noqa: ANN401 - as above
    shown = redact(registry)
    if not registry.startswith(("http://", "https://")):
        raise FlowError(
            "registry must be an address that begins with http:// or https://, got "
            f"'{shown}'. Give the registry's URL."
        )
    try:
        with urlopen(_request(registry, number), timeout=_ANSWER_SECONDS_MAX) as answer:  # noqa: S310 - above
            return _parsed(json.loads(answer.read())["schema"])
    except (OSError, ValueError, KeyError, HTTPException) as error:
        said = redact_text(str(error), registry)
        raise StorageError(
            f"the registry at '{shown}' did not return schema {number}: {said}."
        ) from harmless(error, registry)


def _request(registry: str, number: int) -> Request:
    """The request for a schema; the user and the password of the address become a header."""
    scheme, _, rest = registry.rstrip("/").partition("://")
    userinfo, _, place = rest.rpartition("@")
    request = Request(f"{scheme}://{place}/schemas/ids/{number}")  # noqa: S310 - checked by the caller
    if userinfo:
        word = base64.b64encode(unquote(userinfo).encode()).decode()
        request.add_header("Authorization", f"Basic {word}")
    return request
