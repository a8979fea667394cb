"""Two processes must agree on this: frames, messages, errors, record batches, limits. Pure."""
