"""A loop in a loop: times are (epoch, outer round, inner round).

For each number, the outer loop counts its prime factors, and the inner loop finds the next one by trying
divisors. The inner loop of one outer round is complete when nothing circulates in it, although numbers of
other outer rounds and of other epochs are in flight in it at the same time.
"""

import pyarrow as pa
import pyarrow.compute as pc

import pointstamp as ps

COLUMNS = "number long, rest long, divisor long, factors long"


def next_divisor(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Try one divisor further."""
    return batch.set_column(2, "divisor", pc.add(batch["divisor"], 1))


def divide(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Take the factor that was found out of the rest, and count it."""
    rest = pc.divide(batch["rest"], batch["divisor"])
    return batch.set_column(1, "rest", rest).set_column(3, "factors", pc.add(batch["factors"], 1))


def divides(batch: pa.RecordBatch) -> pa.Array:
    """Whether the divisor divides the rest."""
    whole = pc.divide(batch["rest"], batch["divisor"])
    return pc.equal(pc.multiply(whole, batch["divisor"]), batch["rest"])


flow = ps.Dataflow("prime factors")
numbers = flow.stream_input("numbers", COLUMNS)
with numbers.loop("factors") as factors:
    smaller = factors.variable(COLUMNS, "smaller")
    here = factors.enter(numbers).union(smaller).exchange("number")
    done, composite = here.split(pc.field("rest") == 1)
    with composite.loop("divisors") as divisors:
        untried = divisors.variable(COLUMNS, "untried")
        found, not_yet = divisors.enter(composite).union(untried).split(divides)
        divisors.feedback(untried, not_yet.map_batches(next_divisor))
        factor = divisors.leave(found)
    factors.feedback(smaller, factor.map_batches(divide))
    flow.output("counted", factors.leave(done))


def ask(*numbers: int) -> pa.Table:
    """Numbers as they enter: nothing divided yet."""
    ones = [1] * len(numbers)
    return pa.table(
        {"number": numbers, "rest": numbers, "divisor": [2] * len(numbers), "factors": pc.subtract(ones, 1)}
    )


inputs = {"numbers": [ask(12, 97, 1), ask(1024, 30)]}

if __name__ == "__main__":
    for epoch, tables in flow.stream(inputs, workers=2):
        print(epoch, sorted((row["number"], row["factors"]) for row in tables["counted"].to_pylist()))

# 0 [(1, 0), (12, 3), (97, 1)]
# 1 [(30, 3), (1024, 10)]
