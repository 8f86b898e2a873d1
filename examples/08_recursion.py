"""Recursion with stacks as times, after Abadi & Isard 2015, section 3.4: fib(n) = fib(n - 1) + fib(n - 2).

A time is ("call", stack) on the way down and ("return", stack) on the way up; a stack lists the call sites
that are open. A call pushes its site, a return pops one. The values that return to one stack belong to one
call, and their sum is the value of that call, as soon as the progress of the flow says that all of them
have come.
"""

import pyarrow as pa

import pointstamp as ps

times = ps.timely.Stacks(deepest=32)


class Fib:
    """Answers small calls, and makes two calls of the others."""

    outputs = {"left": "n long", "right": "n long", "answers": "value long"}
    summaries = {("calls", "answers"): (times.turn(),)}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:
        """Calls continue at the time at which they arrived; an answer is a return to the same stack."""
        _, stack = context.time[0]
        for n in batch["n"].to_pylist():
            if n < 2:
                context.send([{"value": n}], output="answers", at=(("return", stack),))
            else:
                context.send([{"n": n - 1}], output="left")
                context.send([{"n": n - 2}], output="right")


flow = ps.Dataflow("fib", times=times)
left = flow.variable("n long", times.push("left"), "left")
right = flow.variable("n long", times.push("right"), "right")
returned = flow.variable("value long", times.pop(), "returned")
calls = flow.stream_input("calls", "n long").union(left, right)
to_left, to_right, answers = ps.operator("fib", Fib(), calls=calls)
flow.feedback(left, to_left)
flow.feedback(right, to_right)
keyed = answers.union(returned).map(lambda row: {"call": 0, **row}, "call long, value long")
values = (
    keyed.group_by("call").agg(value=ps.sum("value")).map(lambda row: {"value": row["value"]}, "value long")
)
flow.feedback(returned, values)
flow.output("values", values)


def call(n: int) -> dict[str, list[tuple[ps.timely.Time, pa.Table]]]:
    """The first call, with nothing open."""
    return {"calls": [(("call", ()), pa.table({"n": [n]}))]}


inputs = call(5)

if __name__ == "__main__":
    results = flow.run(call(10), workers=2)["values"]
    print("fib(10) =", results["return", ()]["value"].to_pylist(), "after", len(results) - 1, "returns")
    print(
        "fib of the second call's second call =", results["return", ("right", "right")]["value"].to_pylist()
    )

# fib(10) = [55] after 177 returns
# fib of the second call's second call = [8]
