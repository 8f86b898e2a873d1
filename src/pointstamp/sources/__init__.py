"""Where rows come from when workers read them themselves: found by name, read again by name."""
