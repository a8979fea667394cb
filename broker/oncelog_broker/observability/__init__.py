"""A broker shows itself here over HTTP: metrics for Prometheus, and probes."""
