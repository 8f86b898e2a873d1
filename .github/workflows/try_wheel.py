"""Runs a flow with the wheel that is installed, by its own kernels."""

import pointstamp as ps

flow = ps.Dataflow("sums")
flow.output("sums", flow.stream_input("n", "k string, x long").group_by("k").agg(total=ps.sum("x")))
sent = flow.run(n=[[{"k": "a", "x": 2}, {"k": "a", "x": 3}]])["sums"].table().to_pylist()
assert sent == [{"epoch": 0, "k": "a", "total": 5}], sent
