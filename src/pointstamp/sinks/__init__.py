"""Where finished epochs go: staged by the workers, published once, read whole."""
