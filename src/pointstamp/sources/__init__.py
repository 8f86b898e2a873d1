"""Where rows come from: replayable sources, found by the driver and read by the workers."""
