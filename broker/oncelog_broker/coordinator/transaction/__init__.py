"""The transaction coordinator: transactional ids, their producers, ordinary and shared ends."""
