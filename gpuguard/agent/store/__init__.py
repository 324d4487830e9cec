"""The durable store: checkpoints, epochs, signatures."""
