"""Oncelog is measured here, with a raw baseline of this machine and peers beside it."""
