"""The node itself: what it is, what it lacks, whether it is cordoned."""
