"""What people look at: a flow in words and as a drawing, a run while it works."""
