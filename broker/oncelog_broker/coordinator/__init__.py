"""Coordinators are state machines over one internal partition each; an engine runs them."""
