"""Many writers in many processes share a transaction; it has an owner and its writers."""
