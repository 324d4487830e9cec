"""The live view of the fleet."""
