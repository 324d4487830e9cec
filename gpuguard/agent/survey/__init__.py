"""What is seen of a job, and what of it stands against saving it."""
