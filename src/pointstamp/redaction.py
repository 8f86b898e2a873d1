"""Redaction: addresses, settings and messages without the secrets that they contain.

Every error, ``repr``, log line, status and page shows addresses through this module. It imports nothing of
pointstamp, so that the errors themselves can use it. Three inputs are told apart:

- ``redact(address)``: one complete address, such as a URL or a libpq connection string. All of it is known to
  be one address, so malformed ones are redacted too: the userinfo of a URL ends at its last ``@``.
- ``redact_text(text)``: a message in which addresses may occur, such as an error of another library.
- ``redact_options(options)``: settings by name, such as those of Kafka, of a catalog or of a file system.

An ambiguous address loses more than its secret, never less. ``identity(address)`` keeps two such addresses
apart, for comparisons of addresses that are stored.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

HIDDEN: Final = "***"

_SECRET_PARTS: Final = (
    *("password", "passwd", "passphrase", "passwort", "secret", "token", "credential", "signature"),
    *("jaas", "userinfo", "oauthbearerconfig", "connectionstring", "authorization", "cookie"),
    *("accesskey", "apikey", "accountkey", "sharedkey", "privatekey", "keypem", "encryptionkey"),
)
_SECRET_NAMES: Final = frozenset(("key", "pwd", "pass", "sig", "sas", "auth"))
"""Names that are secret as the name of an option or of a query parameter, but are common words elsewhere."""

_URL: Final = re.compile(r"((?:jdbc:)?[A-Za-z][\w+.\-]*:/{1,3})(.*)", re.DOTALL)
_CONTAINER: Final = re.compile(r"(?:abfss?|wasbs?|az|adl)://[^/:@?#]+@[^@]*$")
"""Schemes in which the part before the ``@`` is a container, if it has no password."""
_HOST_ALONE: Final = re.compile(r"[^/\s]+:.*@", re.DOTALL)
"""An address without a scheme, such as those of brokers, in which a user and a password were written."""
_URL_IN_TEXT: Final = re.compile(r"[A-Za-z][\w+.\-]*://[^\s'\"<>`]+")
_PARAMETER: Final = re.compile(r"([?&;#])([^=?&;#]*)=([^&;#]*)")
_LIBPQ: Final = (
    "host|hostaddr|port|dbname|user|passfile|service|servicefile|options|replication|require_auth|"
    "channel_binding|connect_timeout|client_encoding|application_name|fallback_application_name|"
    r"keepalives\w*|tcp_user_timeout|target_session_attrs|load_balance_hosts|krbsrvname|gss\w+|ssl\w+|"
    r"require\w+|m(?:in|ax)_protocol_version|scram_\w+|oauth_\w+|password"
)
_NAMED: Final = (
    r"[\w.\-]*(?:" + "|".join(("password", "passwd", "passphrase", "secret", "token")) + r")[\w.\-]*"
)
_SETTING: Final = re.compile(
    rf"\b({_NAMED}|pwd)(\s*=\s*)"
    rf"(?:'(?:\\.|[^'\\])*(?:'|$)|(?!\s)).*?(?=\s+(?:{_LIBPQ})\s*=|$)",
    re.IGNORECASE | re.DOTALL,
)
_SETTING_IN_TEXT: Final = re.compile(
    rf"(?<![\w./\-])({_NAMED}|pwd|sasl\.jaas\.config|basic\.auth\.user\.info)(['\"]?(?:=|\s+=\s+))"
    r"('(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|[^\s'\",;&)\]}]+)",
    re.IGNORECASE,
)
_ITEM_IN_TEXT: Final = re.compile(
    r"(['\"])([\w.\-]+)\1(\s*:\s*)('(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")", re.IGNORECASE
)


def is_secret(name: str) -> bool:
    """Return whether the value of an option or a query parameter with this name is secret.

    >>> is_secret("sasl.password"), is_secret("aws_secret_access_key"), is_secret("sasl.username")
    (True, True, False)
    """
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return plain in _SECRET_NAMES or any(part in plain for part in _SECRET_PARTS)


def redact(address: str | os.PathLike[str]) -> str:
    """Return an address without its userinfo and without the values of secret parameters.

    >>> redact("postgresql://me:a/b@db/shop"), redact("http://h/x?sig=abc&page=2")
    ('postgresql://***@db/shop', 'http://h/x?sig=***&page=2')
    >>> redact("host=db password=a b user=me"), redact("s3://bucket/folder@2")
    ('host=db password=*** user=me', 's3://bucket/folder@2')
    """
    address = os.fspath(address)
    url = _URL.match(address)
    if url is None and _is_settings(address):
        return _SETTING.sub(rf"\1\2{HIDDEN}", address)
    if url is None and not _HOST_ALONE.match(address):
        return address
    scheme, rest = ("", address) if url is None else url.groups()
    end = 0 if _CONTAINER.match(address) else _userinfo_end(rest)
    shown = [scheme, f"{HIDDEN}@" if end else ""]
    for start, stop in _secret_parameters(rest):
        if stop > end:  # one that contains the end of the userinfo is hidden as well
            shown += [rest[end:start] if start > end else "", HIDDEN]
            end = stop
    return "".join((*shown, rest[end:]))


def _is_settings(address: str) -> bool:
    """Whether this is a connection string of libpq; a local path may contain folders such as ``token=7``."""
    return re.match(r"\s*\w+\s*=", address) is not None


def _secret_parameters(rest: str) -> list[tuple[int, int]]:
    """The positions of the values of secret parameters."""
    return [found.span(3) for found in _PARAMETER.finditer(rest) if is_secret(found[2])]


def _userinfo_end(rest: str) -> int:
    """The end of a URL's userinfo, counted after its scheme: after the last ``@``; 0 without one.

    A password may contain characters that end the authority of a well-formed URL. The ``@`` of a path is no
    end of a userinfo if nothing before it looks like a user with a password.
    """
    end = rest.rfind("@") + 1
    authority = re.split(r"[/?#\\]", rest, maxsplit=1)[0]
    return end if "@" in authority or ":" in rest[:end] else 0


def identity(address: str) -> str:
    """Return a redacted address that differs for addresses which differ in more than their secrets.

    Where redaction may have removed more than a secret, a digest of the address is added.

    >>> identity("sftp://me:x@h/in") == identity("sftp://me:y@h/in"), identity("sftp://me:x@h/in")
    (True, 'sftp://***@h/in')
    >>> identity("sftp://me:x@h/a@1") == identity("sftp://me:x@h/b@1")
    False
    """
    redacted = redact(address)
    if redacted == address or _is_settings(address):
        return redacted
    url = _URL.match(address)
    rest = address if url is None else url[2]
    authority = re.split(r"[/?#\\]", rest, maxsplit=1)[0]
    if url is not None and _userinfo_end(rest) <= authority.rfind("@") + 1:
        return redacted
    return f"{redacted} ({hashlib.blake2b(address.encode(), digest_size=8).hexdigest()})"


def redact_text(text: str, *addresses: str) -> str:
    """Return a message without the secrets of the addresses and settings that occur in it.

    ``addresses`` are those that the message is about: each is replaced as a whole, and so are the secrets in
    it, which another library may quote without the rest.

    >>> redact_text("GET http://me:x@h/y failed: password=abc, {'sasl.password': 'x'}")
    "GET http://***@h/y failed: password=***, {'sasl.password': '***'}"
    """
    for address in addresses:
        text = text.replace(address, redact(address))
        for secret in _secrets_of(address):
            text = text.replace(secret, HIDDEN)
    text = _URL_IN_TEXT.sub(lambda found: redact(found[0]), text)
    text = _SETTING_IN_TEXT.sub(rf"\1\2{HIDDEN}", text)
    return _ITEM_IN_TEXT.sub(_item, text)


def _item(found: re.Match[str]) -> str:
    quote, name, between, _ = found.groups()
    return f"{quote}{name}{quote}{between}{quote}{HIDDEN}{quote}" if is_secret(name) else found[0]


def _secrets_of(address: str) -> list[str]:
    """The secrets of an address and their pieces, longest first; none so short that it is found anywhere."""
    url = _URL.match(address)
    whole: list[str] = []
    if url is not None:
        whole.append(url[2][: _userinfo_end(url[2])].rstrip("@").partition(":")[2])
        whole += [url[2][start:stop] for start, stop in _secret_parameters(url[2])]
    elif _is_settings(address):
        whole += [found[0].partition("=")[2].strip() for found in _SETTING.finditer(address)]
    pieces = {piece for secret in whole for piece in (secret, *re.split(r"[/?#@:&;=\s'\"\\]+", secret))}
    return sorted((piece for piece in pieces if len(piece) > 2), key=len, reverse=True)


def harmless(error: BaseException, *addresses: str) -> BaseException | None:
    """Return an error to chain as a cause; None if its text, which a traceback shows, contains a secret."""
    return error if redact_text(str(error), *addresses) == str(error) else None


def redact_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in which secret values are hidden and addresses are redacted, at any depth.

    >>> redact_options({"key": "AKIA", "client_kwargs": {"endpoint_url": "http://me:x@h"}, "anon": False})
    {'key': '***', 'client_kwargs': {'endpoint_url': 'http://***@h'}, 'anon': False}
    """
    return {name: HIDDEN if is_secret(str(name)) else _value(value) for name, value in options.items()}


def _value(value: Any) -> Any:  # noqa: ANN401 - whatever an option holds
    if isinstance(value, str):
        return redact_text(redact(value))
    if isinstance(value, Mapping):
        return redact_options(value)
    if isinstance(value, list):
        return [_value(each) for each in value]
    if type(value) is tuple:
        return tuple(_value(each) for each in value)
    return value


class RedactedRepr:
    """Gives a dataclass a ``repr`` without secrets; the dataclass is declared with ``repr=False``.

    Fields with ``repr=False`` are left out, as dataclasses do; those of the rest that are texts are redacted
    as addresses, and mappings as options.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{field.name}={_value(getattr(self, field.name))!r}"
            for field in fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
            if field.repr
        )
        return f"{type(self).__qualname__}({shown})"
