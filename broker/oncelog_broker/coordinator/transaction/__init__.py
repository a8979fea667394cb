"""The transaction coordinator keeps transactional ids, their producers and how transactions end."""
