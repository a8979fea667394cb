"""This room has the planner: which replicas move so that a cluster is safer and more even. Pure."""
