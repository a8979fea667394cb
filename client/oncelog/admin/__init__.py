"""Administration: topics, groups, transactions, and what the answers say."""
