"""The journal of a query: what is durable, what it means, and what may be gone on from."""
