"""This package holds what a process needs from its machine, as ports with their real versions."""
