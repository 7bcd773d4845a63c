"""The official MCP client keeps the contract: through the proxy in both eras, and against servers with the gate inside."""

from __future__ import annotations

from typing import ClassVar

from interlock.testing.integration import IntegrationContract, IntegrationDriver
from tests.integrations.mcp import driver as through_the_proxy
from tests.integrations.mcp import inside


class TestProxyModern(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = through_the_proxy.McpDriver


class TestProxyHandshake(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = through_the_proxy.HandshakeDriver


class TestProxyHttpModern(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = through_the_proxy.HttpDriver


class TestProxyHttpHandshake(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = through_the_proxy.HttpHandshakeDriver


class TestInsideModern(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = inside.InsideDriver


class TestInsideHandshake(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = inside.InsideHandshakeDriver


class TestInsideFastmcp(IntegrationContract):
    driver: ClassVar[type[IntegrationDriver]] = inside.FastmcpDriver
