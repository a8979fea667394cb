"""Benchmarks of Oncelog, a raw baseline of this machine, and peers beside them."""
