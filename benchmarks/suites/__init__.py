"""Suites: each runs one story against a real local service and hands back a result document."""
