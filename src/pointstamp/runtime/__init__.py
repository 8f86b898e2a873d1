"""One worker's step, the exchange of batches, the ports to the outside, and n workers in one process."""
