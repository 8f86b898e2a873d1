"""Processes that work on S3: ``python -m support.s3_drivers race|count ADDRESS NUMBER``.

``race`` creates so many objects, in step with whoever writes lines to its input, and says which it created.
``count`` counts words over so many epochs, with checkpoint and output below the address, and says each
epoch that it has published; it is there to be killed.
"""

import sys

import pointstamp as ps
from pointstamp.errors import AlreadyStored
from pointstamp.storage.anywhere import storage_at


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def race(address: str, rounds: int) -> None:
    """One object for each line; "won" or "lost"."""
    storage = storage_at(address)
    storage.list("")
    say("ready")
    for number in range(rounds):
        sys.stdin.readline()
        try:
            storage.create(f"object-{number}", str(number).encode())
            say("won")
        except AlreadyStored:
            say("lost")


def words_of(epoch: int) -> list[dict[str, str]]:
    """The same in every process."""
    return [{"word": f"w{(epoch * k) % 5}"} for k in range(1, 4)]


def count(address: str, epochs: int) -> None:
    """To the end of all epochs."""
    flow = ps.Dataflow("words")
    flow.output("counts", flow.input("words", "word string").running().count("word"))
    query = flow.start_local(
        words=[words_of(epoch) for epoch in range(epochs)],
        checkpoint=f"{address}/checkpoint",
        output=f"{address}/output",
        workers=2,
    )
    say("started")
    seen = -1
    while not (is_over := query.awaitTermination(0.01)) or query.epoch > seen:
        if query.epoch > seen:
            seen = query.epoch
            say("published", seen)
        if is_over:
            break
    query.stop()
    say("ended")


if __name__ == "__main__":
    {"race": race, "count": count}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
