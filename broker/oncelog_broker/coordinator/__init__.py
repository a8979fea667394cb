"""Coordinators: state machines over one internal partition each, and the engine that runs them."""
