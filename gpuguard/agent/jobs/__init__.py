"""The jobs of this node and the supervisor each lives under."""
