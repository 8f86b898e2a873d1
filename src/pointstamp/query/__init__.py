"""A query: a flow that runs on, with a crew of members, a coordinator and a supervisor."""
