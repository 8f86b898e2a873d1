"""The judge of traces: real workers' events replayed on the models' state."""
