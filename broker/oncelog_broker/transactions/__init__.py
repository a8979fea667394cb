"""A broker's part in everybody's transactions: it carries markers, writes them, and verifies."""
