"""The protocol against every order of events: real generators, real rules, real journal; a simulated service, clock and death."""

from __future__ import annotations
