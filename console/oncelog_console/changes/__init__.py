"""Changes of a cluster: each is looked at, planned, and carried out as it was planned."""
