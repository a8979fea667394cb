"""Programs for people who look at a broker's files."""
