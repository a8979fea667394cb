"""The house is measured here: who changes whose state, who imports whom, what docstrings say."""
