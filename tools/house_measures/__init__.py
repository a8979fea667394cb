"""Measures of the house: who changes whose state, and who imports whom."""
