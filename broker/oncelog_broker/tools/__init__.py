"""These programs are for people who look at a broker's files."""
