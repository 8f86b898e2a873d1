"""One worker: a copy of the whole flow, its operators, its ports to the outside, its snapshots."""
