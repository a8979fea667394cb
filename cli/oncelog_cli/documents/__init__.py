"""Commands ask a cluster here, apart from how they print its answers: see ``answer.py``."""
