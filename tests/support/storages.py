"""A storage that misbehaves on request, and random scripts of misbehaviour.

Faults are what real stores do: they fail before or after the work is done, repeat a request whose answer got
lost on the way, leave half an object under its final name, and let others run in between. Each operation
takes the next fault from a script; an empty script is a storage without faults.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from pointstamp.errors import StorageError
from pointstamp.storage.port import Content, Storage, joined


@dataclass(frozen=True, slots=True)
class Fail:
    """The operation is not done, and its caller is told that it failed."""


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """The operation is done, and its caller is told that it failed."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """The operation is done twice, as by a client that retries: the caller gets the second answer."""


@dataclass(frozen=True, slots=True)
class Tear:
    """Only the beginning of the content is stored, under the final name; the caller may be told or not."""

    keep: float  # which part of it
    is_told: bool = True


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Something else happens first: this is how a delay looks from outside."""

    act: Callable[[], None]


@dataclass
class Through:
    """Another storage, reached through this one, which changes nothing; others change one thing of it."""

    inner: Storage

    @property
    def address(self) -> str:
        return self.inner.address

    def create(self, name: str, content: Content) -> None:
        self.inner.create(name, content)

    def write(self, name: str, content: Content) -> None:
        self.inner.write(name, content)

    def sync(self, name: str) -> None:
        self.inner.sync(name)

    def read(self, name: str) -> bytes:
        return self.inner.read(name)

    def size(self, name: str) -> int | None:
        return self.inner.size(name)

    def list(self, prefix: str = "") -> "list[str]":
        return self.inner.list(prefix)

    def delete(self, name: str) -> None:
        self.inner.delete(name)


T = TypeVar("T")
Fault: TypeAlias = Fail | LoseAnswer | Repeat | Tear | Interrupt | None


@dataclass
class FaultyStorage:
    """Another storage, reached through a connection with faults; ``done`` lists what was asked for."""

    inner: Storage
    script: Iterable[Fault] = ()
    done: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._faults: Iterator[Fault] = iter(self.script)

    @property
    def address(self) -> str:
        return f"faulty {self.inner.address}"

    def follow(self, script: Iterable[Fault]) -> None:
        """Take the faults of the next operations from here."""
        self._faults = iter(script)

    def create(self, name: str, content: Content) -> None:
        self._store("create", name, joined(content), self.inner.create)

    def write(self, name: str, content: Content) -> None:
        self._store("write", name, joined(content), self.inner.write)

    def sync(self, name: str) -> None:
        self._do("sync", name, lambda: self.inner.sync(name))

    def read(self, name: str) -> bytes:
        return self._do("read", name, lambda: self.inner.read(name))

    def size(self, name: str) -> int | None:
        return self._do("size", name, lambda: self.inner.size(name))

    def list(self, prefix: str = "") -> "list[str]":
        return self._do("list", prefix, lambda: self.inner.list(prefix))

    def delete(self, name: str) -> None:
        self._do("delete", name, lambda: self.inner.delete(name))

    def _store(self, act: str, name: str, content: bytes, store: Callable[[str, bytes], None]) -> None:
        def torn(keep: int) -> None:
            store(name, content[:keep])

        self._do(act, name, lambda: store(name, content), torn, len(content))

    def _do(
        self,
        act: str,
        name: str,
        work: Callable[[], T],
        torn: Callable[[int], T] | None = None,
        length: int = 0,
    ) -> T:
        self.done.append((act, name))
        fault = next(self._faults, None)
        match fault:
            case None:
                return work()
            case Interrupt():
                fault.act()
                return work()
            case Repeat():
                work()
                return work()
            case Tear() if torn is not None and length:
                answer = torn(min(int(fault.keep * length), length - 1))
                if not fault.is_told:
                    return answer
            case LoseAnswer() | Tear():
                work()
            case Fail():
                pass
        raise StorageError(f"'{name}': the connection broke during {act}.")


def random_faults(seed: int, one_in: int) -> Iterator[Fault]:
    """Faults for ever, about one in so many operations; none that tears."""
    choose = random.Random(seed)
    while True:
        yield choose.choice((Fail(), LoseAnswer(), Repeat())) if choose.randrange(one_in) == 0 else None
