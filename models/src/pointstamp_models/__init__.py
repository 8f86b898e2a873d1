"""The models of the papers behind pointstamp, executable, and the explorer that judges them."""
