"""The Oncelog SDK."""
