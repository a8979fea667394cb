"""Each file has the commands of one noun, or of one verb. It is imported when used."""
