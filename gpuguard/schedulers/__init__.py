"""Slurm and Kubernetes behind one small protocol."""
