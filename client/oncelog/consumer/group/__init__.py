"""Taking part in a consumer group: coordinator, membership, commits, handing over."""
