"""From kernel lines and samples to faults, incidents and verdicts; pure."""
