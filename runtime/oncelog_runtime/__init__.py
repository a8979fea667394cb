"""What a process needs from its machine, as ports with their real versions."""
