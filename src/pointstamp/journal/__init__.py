"""The journal of a query: what is durable, what it means, and where a query may go on from."""
