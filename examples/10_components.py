"""Connected components of a graph that grows: what ``pointstamp.graphs`` has ready.

Edges arrive in epochs; each epoch emits the vertices whose component has changed. Kept by
vertex, these changes are the components of all edges so far. Nothing is computed again for what did not
change.
"""

import pyarrow as pa

import pointstamp as ps
from pointstamp import graphs

flow = ps.Dataflow("components")
edges = flow.stream_input("edges", "src long, dst long")
flow.output("components", graphs.connected_components(edges))

inputs = {
    "edges": [
        pa.table({"src": [1, 2, 7, 20], "dst": [2, 3, 8, 21]}),
        pa.table({"src": [3, 30], "dst": [7, 30]}),
        pa.table({"src": [21], "dst": [8]}),
    ]
}

if __name__ == "__main__":
    for epoch, tables in flow.stream(inputs, workers=2):
        changed = tables["components"].sort_by("vertex")
        print(epoch, dict(zip(changed["vertex"].to_pylist(), changed["component"].to_pylist(), strict=True)))

# 0 {1: 1, 2: 1, 3: 1, 7: 7, 8: 7, 20: 20, 21: 20}
# 1 {7: 1, 8: 1, 30: 30}
# 2 {20: 1, 21: 1}
