"""What a broker shows of itself over HTTP: metrics for Prometheus, and probes"""
