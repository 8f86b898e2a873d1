"""Hashes and encodings of bytes: ``hash``, ``xxhash64``, ``md5``, ``sha2``, ``crc32``, ``hex``, ``base64``.

``hash`` and ``xxhash64`` are Spark's: Murmur3 of 32 bits and XXH64, both begun with 42, where each value is
hashed with the hash of the values before it as the seed. A null leaves the hash as it is. A value is hashed
by its type: a byte as four bytes, a double by its bits, a decimal of more than 18 digits by its bytes.
"""

import base64
import hashlib
import hmac
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, Final, TypeAlias
from urllib.parse import quote_plus

import pyarrow as pa
from pyarrow import types

from pointstamp.errors import SchemaError
from pointstamp.expressions.by_row import by_row, register_by_row
from pointstamp.expressions.signature import Datum, Signature, TypeRule, register
from pointstamp.expressions.type_rules import LONG, STRING

_SEED: Final = 42
_M32: Final = 2**32 - 1
_M64: Final = 2**64 - 1
_DIGITS_OF_LONG: Final = 18
_WIDE: Final = Context(prec=80)

_Hash: TypeAlias = Callable[[Any, int], int]


def _rotate(value: int, bits: int, width: int) -> int:
    mask = (1 << width) - 1
    return ((value << bits) & mask) | (value >> (width - bits))


# Murmur3, x86, 32 bits.


def _mixed_key(key: int) -> int:
    return _rotate(key * 0xCC9E2D51 & _M32, 15, 32) * 0x1B873593 & _M32


def _mixed_hash(found: int, key: int) -> int:
    return (_rotate(found ^ key, 13, 32) * 5 + 0xE6546B64) & _M32


def _finished(found: int, length: int) -> int:
    found ^= length
    found = (found ^ found >> 16) * 0x85EBCA6B & _M32
    found = (found ^ found >> 13) * 0xC2B2AE35 & _M32
    return found ^ found >> 16


def _murmur_int(value: int, seed: int) -> int:
    return _finished(_mixed_hash(seed, _mixed_key(value & _M32)), 4)


def _murmur_long(value: int, seed: int) -> int:
    low, high = value & _M32, (value >> 32) & _M32
    return _finished(_mixed_hash(_mixed_hash(seed, _mixed_key(low)), _mixed_key(high)), 8)


def _murmur_bytes(value: bytes, seed: int) -> int:
    whole = len(value) - len(value) % 4
    found = seed
    for (word,) in struct.iter_unpack("<I", value[:whole]):
        found = _mixed_hash(found, _mixed_key(word))
    for byte in value[whole:]:  # Spark's own way with the rest: each byte as a signed integer
        found = _mixed_hash(found, _mixed_key((byte - 256 if byte > 127 else byte) & _M32))
    return _finished(found, len(value))


# XXH64.

_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
)  # fmt: skip


def _avalanche(found: int) -> int:
    found = (found ^ found >> 33) * _P2 & _M64
    found = (found ^ found >> 29) * _P3 & _M64
    return found ^ found >> 32


def _xx_int(value: int, seed: int) -> int:
    found = (seed + _P5 + 4) & _M64
    found ^= (value & _M32) * _P1 & _M64
    return _avalanche((_rotate(found, 23, 64) * _P2 + _P3) & _M64)


def _xx_round(found: int, word: int) -> int:
    return _rotate((found + word * _P2) & _M64, 31, 64) * _P1 & _M64


def _xx_word(found: int, word: int) -> int:
    return (_rotate(found ^ _xx_round(0, word), 27, 64) * _P1 + _P4) & _M64


def _xx_long(value: int, seed: int) -> int:
    return _avalanche(_xx_word((seed + _P5 + 8) & _M64, value & _M64))


def _xx_bytes(value: bytes, seed: int) -> int:
    length, position = len(value), 0
    if length >= 32:
        lanes = [(seed + _P1 + _P2) & _M64, (seed + _P2) & _M64, seed & _M64, (seed - _P1) & _M64]
        while position <= length - 32:
            words = struct.unpack_from("<4Q", value, position)
            lanes = [_xx_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            position += 32
        found = sum(_rotate(lane, bits, 64) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _M64
        for lane in lanes:
            found = ((found ^ _xx_round(0, lane)) * _P1 + _P4) & _M64
    else:
        found = (seed + _P5) & _M64
    found = (found + length) & _M64
    while position + 8 <= length:
        found = _xx_word(found, struct.unpack_from("<Q", value, position)[0])
        position += 8
    if position + 4 <= length:
        found ^= struct.unpack_from("<I", value, position)[0] * _P1 & _M64
        found = (_rotate(found, 23, 64) * _P2 + _P3) & _M64
        position += 4
    for byte in value[position:]:
        found = _rotate(found ^ (byte * _P5 & _M64), 11, 64) * _P1 & _M64
    return _avalanche(found)


def _hasher(given: pa.DataType, of_int: _Hash, of_long: _Hash, of_bytes: _Hash) -> _Hash:
    """The hash of a value of a type, from a seed."""
    if types.is_boolean(given):
        return lambda value, seed: of_int(int(value), seed)
    if types.is_integer(given) or types.is_date32(given):
        return of_long if given == LONG else of_int
    if types.is_timestamp(given) or types.is_duration(given):
        return of_long
    if types.is_float32(given):
        return lambda value, seed: of_int(_bits(value, "f", "i"), seed)
    if types.is_float64(given):
        return lambda value, seed: of_long(_bits(value, "d", "q"), seed)
    if types.is_decimal(given):
        scale, is_long = given.scale, given.precision <= _DIGITS_OF_LONG
        return lambda value, seed: _decimal_hash(value, scale, is_long, of_long, of_bytes, seed)
    if types.is_string(given):
        return lambda value, seed: of_bytes(value.encode(), seed)
    if types.is_binary(given):
        return of_bytes
    if types.is_list(given):
        element = _hasher(given.value_type, of_int, of_long, of_bytes)
        return lambda value, seed: _folded([element] * len(value), value, seed)
    if types.is_struct(given):
        parts = [_hasher(field.type, of_int, of_long, of_bytes) for field in given]
        names = [field.name for field in given]
        return lambda value, seed: _folded(parts, [value[name] for name in names], seed)
    raise SchemaError(f"values of type {given} have no hash")


def _folded(hashers: Sequence[_Hash], values: Sequence[Any], seed: int) -> int:
    for hasher, value in zip(hashers, values, strict=True):
        seed = seed if value is None else hasher(value, seed)
    return seed


def _bits(value: float, of: str, to: str) -> int:
    if value != value:  # Java has one NaN here
        return 0x7FC00000 if of == "f" else 0x7FF8000000000000
    found: int = struct.unpack(f"<{to}", struct.pack(f"<{of}", value + 0.0))[0]
    return found


def _decimal_hash(
    value: Decimal, scale: int, is_long: bool, of_long: _Hash, of_bytes: _Hash, seed: int
) -> int:
    unscaled = int(value.scaleb(scale, _WIDE))
    if is_long:
        return of_long(unscaled, seed)
    length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return of_bytes(unscaled.to_bytes(length, "big", signed=True), seed)


def _hash_rule(width: int, *functions: _Hash) -> TypeRule:
    gives = pa.int32() if width == 32 else LONG

    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        seed = options.get("seed", _SEED) & ((1 << width) - 1)
        taken = [STRING if types.is_null(each) else each for each in found]
        try:
            hashers = [_hasher(each, *functions) for each in taken]
        except SchemaError as error:
            raise SchemaError(f"{what}: {error}") from error

        def hashed(*values: Any) -> int:  # noqa: ANN401 - of any type
            found = _folded(hashers, values, seed)
            return found - (1 << width) if found >> (width - 1) else found

        return Signature(tuple(taken), gives, lambda *data, **_: by_row(hashed, gives, False, *data))

    return rule


# Encodings.


def _hex_rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
    del what, options
    (given,) = found
    if types.is_integer(given):
        function: Any = lambda value: f"{value & _M64:X}"  # noqa: E731 - one of three
    elif types.is_binary(given):
        function = lambda value: value.hex().upper()  # noqa: E731
    else:
        given, function = STRING, lambda value: value.encode().hex().upper()
    return Signature((given,), STRING, lambda datum: by_row(function, STRING, True, datum))


def _unhex(text: str) -> bytes | None:
    try:
        return bytes.fromhex("0" * (len(text) % 2) + text) if text.isalnum() or not text else None
    except ValueError:
        return None


def _unhex_checked(text: str) -> bytes:
    found = _unhex(text)
    if found is None:
        raise pa.ArrowInvalid(f"{text!r} is not hexadecimal")
    return found


def _sha2(value: bytes, bits: int) -> str | None:
    if bits not in (0, 224, 256, 384, 512):
        return None
    return hashlib.new(f"sha{bits or 256}", value).hexdigest()


def _base64(value: bytes, is_chunked: bool) -> str:
    text = base64.b64encode(value).decode()
    return "\r\n".join(text[at : at + 76] for at in range(0, len(text), 76)) if is_chunked else text


_ALPHABET: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def _unbase64(text: str) -> bytes:
    """The bytes of a text in base 64; other letters are left out, and missing padding is added."""
    raw = text.encode()
    body, _, _ = raw.partition(b"=")
    kept = bytes(byte for byte in body if byte in _ALPHABET)
    if len(kept) % 4 == 1:
        raise pa.ArrowInvalid(f"{text!r} is not base 64")
    return base64.b64decode(kept + b"=" * (-len(kept) % 4))


_CHARSETS: Final = {
    "US-ASCII": "ascii", "ISO-8859-1": "latin-1", "UTF-8": "utf-8", "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le", "UTF-16": "utf-16", "UTF-32": "utf-32-be",
}  # fmt: skip


def _encode(text: str, charset: str, *_: Any) -> bytes:  # noqa: ANN401 - flags of older versions
    name = _CHARSETS.get(charset.upper())
    if name is None:
        raise pa.ArrowInvalid(f"{charset!r} is not a character set")
    try:
        if name == "utf-16":
            return b"\xfe\xff" + text.encode("utf-16-be") if text else b""
        return text.encode(name)
    except UnicodeEncodeError as error:
        raise pa.ArrowInvalid(f"{text!r} has characters that {charset} cannot encode") from error


def _decode(value: bytes, charset: str, *_: Any) -> str:  # noqa: ANN401 - flags of older versions
    name = _CHARSETS.get(charset.upper())
    if name is None:
        raise pa.ArrowInvalid(f"{charset!r} is not a character set")
    try:
        if name == "utf-16" and value[:2] not in (b"\xfe\xff", b"\xff\xfe"):
            return value.decode("utf-16-be")
        return value.decode(name)
    except UnicodeDecodeError as error:
        raise pa.ArrowInvalid(f"{value!r} is not {charset}") from error


def _url_encode(text: str) -> str:
    return quote_plus(text, safe="*-._").replace("~", "%7E")


def _url_decode(text: str, fails: bool) -> str | None:
    """The text of an encoded one; a percent sign without two digits is an error."""
    raw, position, made = text.replace("+", " "), 0, bytearray()
    while position < len(raw):
        if raw[position] != "%":
            made += raw[position].encode()
            position += 1
            continue
        digits = raw[position + 1 : position + 3]
        if len(digits) < 2 or not all(each in "0123456789abcdefABCDEF" for each in digits):
            if fails:
                raise pa.ArrowInvalid(f"{text!r} has a percent sign without two digits")
            return None
        made.append(int(digits, 16))
        position += 3
    return made.decode("utf-8", "replace")


def _hmac(key: bytes, message: bytes, name: str) -> bytes:
    if not key:
        raise pa.ArrowInvalid("hmac needs a key, got an empty one")
    known = {
        "SHA-1": "sha1",
        "SHA-224": "sha224",
        "SHA-256": "sha256",
        "SHA-384": "sha384",
        "SHA-512": "sha512",
    }
    if name.upper() not in known:
        raise pa.ArrowInvalid(f"{name!r} is not an algorithm of hmac")
    return hmac.new(key, message, known[name.upper()]).digest()


def _nothing(*data: Datum) -> Datum:
    raise AssertionError("the rule gives the kernel")


register(
    "hash", _hash_rule(32, _murmur_int, _murmur_long, _murmur_bytes), _nothing, most=None, can_fail=False,
    is_strict=False, is_by_row=True)  # fmt: skip
register(
    "xxhash64", _hash_rule(64, _xx_int, _xx_long, _xx_bytes), _nothing, most=None, can_fail=False,
    is_strict=False, is_by_row=True)  # fmt: skip
register("hex", _hex_rule, _nothing, can_fail=False, is_by_row=True)
register_by_row("unhex", _unhex, pa.binary(), can_fail=False)
register_by_row("unhex_checked", _unhex_checked, pa.binary())
register_by_row("md5", lambda value: hashlib.md5(value, usedforsecurity=False).hexdigest(), can_fail=False)
register_by_row("sha1", lambda value: hashlib.sha1(value, usedforsecurity=False).hexdigest(), can_fail=False)
register_by_row("sha2", _sha2, least=2, can_fail=False)
register_by_row("crc32", zlib.crc32, LONG, can_fail=False)
register_by_row("base64", _base64, least=2, can_fail=False)
register_by_row("unbase64", _unbase64, pa.binary())
register_by_row("encode", _encode, pa.binary(), least=2, most=4)
register_by_row("decode", _decode, least=2, most=4)
register_by_row("url_encode", _url_encode, can_fail=False)
register_by_row("url_decode", _url_decode, least=2)
register_by_row("hmac", _hmac, pa.binary(), least=3)
