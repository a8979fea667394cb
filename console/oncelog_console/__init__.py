"""The console shows the cluster in a browser; ``oncelog console`` starts it as a process."""
