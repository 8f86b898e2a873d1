"""Pointstamps, the tracker that turns counts into frontiers, and the broadcast of changes between workers."""
