"""The mesh between workers: sockets, who may come in, messages as bytes."""
