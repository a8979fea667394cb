"""Leader and follower roles, the in-sync set, the high watermark, fetch loops, parked requests."""
