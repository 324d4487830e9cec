"""Programs that run on practice hosts and prove by their log that they were never broken."""
