"""open-multi-agent, a framework for Node: named, and not run."""

from __future__ import annotations

from benchmarks.suites.matrix.framework import Framework

FRAMEWORK = Framework(
    name="open_multi_agent",
    title="open-multi-agent (Node)",
    docs="https://github.com/open-multi-agent/open-multi-agent (docs/checkpoint.md, docs/durable-approvals.md)",
    starts="`runTeam`, `runTasks` or `runFromPlan` with a checkpoint store; `runAgent` has none",
    approves="its durable approvals, with a compare-and-set store",
    persists="a checkpoint after each task, and a tool's result after each call",
    resumes="restored from the checkpoint; a call without a saved result runs again, with the same `context.toolCallId`",
    default="`context.toolCallId`, which is the same after a restore",
    wrapper="none; it is a Node framework, behind the MCP proxy (`interlock.mcp_proxy`)",
    skip="its package (@open-multi-agent/core) could not be installed from npm, and the gate has no wrapper for Node",
    order=90,
)
