"""What two processes must agree on: frames, messages, errors, record batches, limits. Pure."""
