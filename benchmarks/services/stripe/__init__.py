"""A local Stripe-compatible service: a process of its own, driven through the official SDK. See README.md beside this file."""

from __future__ import annotations

from benchmarks.services.stripe.launcher import LocalStripe, RemoteStripe, ServiceError

__all__ = ["LocalStripe", "RemoteStripe", "ServiceError"]
