"""What several tests share: generators of random graphs and oracles that recompute from scratch."""
