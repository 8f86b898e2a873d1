"""What an operator keeps between epochs: pieces that can be saved and brought to any number of workers."""
