"""The flow that users write: streams, loops, operators of their own, and the plan that comes of it."""
