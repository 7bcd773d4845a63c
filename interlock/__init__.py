"""Interlock: the small gate that calls with outside effects go through."""
