"""Certificates for a cluster are made and looked at here; this needs the package cryptography."""
