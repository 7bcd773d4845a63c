"""What is known of other people's libraries and of names: calls that act outside, marks that make a tool, words that say so.

Owns tables and the questions asked of them. It must not know how a file is read or what is proposed. A table is a hint: what it does not
name is not harmless.
"""

from __future__ import annotations

import re

STACK = {
    "langgraph": "langgraph",
    "langchain": "langchain",
    "langchain_core": "langchain",
    "agents": "openai-agents",
    "google.adk": "adk",
    "pydantic_ai": "pydantic-ai",
    "fastmcp": "fastmcp",
    "mcp": "mcp",
    "anthropic": "anthropic",
    "openai": "openai",
    "temporalio": "temporal",
    "restate": "restate",
    "dbos": "dbos",
}
"""Modules of the frameworks that have a wrapper here, and the wrapper's name."""

TOOL_MARKS = frozenset({"tool", "tool_plain", "function_tool", "beta_tool", "beta_async_tool"})
"""Decorators, by their last name, that make a function a tool of an agent or of an MCP server."""
TOOL_MAKERS = frozenset(
    {*TOOL_MARKS, "FunctionTool", "StructuredTool", "Tool", "from_function", "add_function", "add_tool", "AgentTool"}
)
"""Calls, by their last name, that make a tool of the function they are given."""
GATED_MARKS = frozenset({"effect"})
PLURALS = frozenset({"tools", "functions", "listed"})
"""Variables that hold tools, and are none."""
TAKES_CONFIG = frozenset(
    {
        "protect",
        "protect_tools",
        "protect_tool",
        "protect_agent",
        "protect_functions",
        "protect_beta_tools",
        "protect_server",
        "ToolCallGate",
    }
)
"""Calls of ours, by their last name, whose second argument is a configuration."""
TAKES_TOOLS = TAKES_CONFIG - {"protect_agent", "protect_server"}
"""Those whose first argument is a tool, or a list of them."""

_WRITES = r"(create|update|modify|cancel|confirm|capture|pay|void|delete|reverse|expire|finalize_invoice|send_invoice|approve|decline)"
_HTTP = r"(requests|httpx2?|aiohttp|urllib3|niquests)"
_CALLS: tuple[tuple[str, str], ...] = (
    (
        r"(^|\.)(refunds|charges|payment_intents|transfers|payouts|invoices|subscriptions|credit_notes|credit_grants|balance_transactions)"
        rf"\.{_WRITES}(_async)?$",
        "writes to Stripe",
    ),
    (rf"^stripe\b.*\.{_WRITES}(_\w+)?$", "writes to Stripe"),
    (rf"^{_HTTP}\b.*\.(post|put|patch|delete)$", "sends an HTTP request that may write"),
    (r"(^|\.)(session|client|http|api)\.(post|put|patch|delete)$", "sends an HTTP request that may write"),
    (r"(^|\.)(sendmail|send_message|send_raw_email|send_email)$", "sends a message"),
    (
        r"^boto3\b.*\.(put|delete|create|update|send|start|stop|terminate|run|invoke|modify|attach|detach|copy|upload|publish|batch_write|transact_write)"
        r"(_\w+)?$",
        "writes through boto3 or a queue",
    ),
    (
        r"\.(put_item|put_object|delete_object|delete_objects|delete_item|update_item|upload_file|run_instances|terminate_instances|invoke_function)$",
        "writes through boto3 or a queue",
    ),
    (r"\.(publish|basic_publish|send_and_wait|produce)$", "writes through boto3 or a queue"),
    (r"\.(chat_\w*[a-z]Message|chat_update|chat_delete|files_upload(_v2)?|conversations_(create|invite|archive|kick)|reactions_add)$",
     "writes to Slack"),
    (
        r"\.(create_issue|create_issue_comment|create_pull|create_comment|create_git_ref|create_git_release|create_file|update_file|delete_file"
        r"|create_repo|add_to_labels|add_to_assignees|create_review|merge)$",
        "writes to GitHub",
    ),
    (r"^(github|Github)\b.*\.(edit|delete|create_\w+)$", "writes to GitHub"),
    (r"(^|\.)(twilio\w*|messages|calls)\b.*\.?create$", "sends through a messaging service or a model"),
    (r"(^|\.)(sendgrid|sg|SendGridAPIClient)\b.*\.(send|post)$|^resend\b.*\.(send|create)$|^postmarker\b.*\.send$", "sends mail"),
    (r"(events|files|drafts|messages|permissions|values|tasks|documents|spreadsheets)\(\)\.(insert|update|delete|send|patch|create|append|batchUpdate)$",
     "writes through a Google API"),
    (r"^kubernetes\b.*\.(create|delete|patch|replace)_\w+$", "changes a Kubernetes cluster"),
    (r"^(shopify|paypalrestsdk|braintree|square|adyen|plaid)\b.*\.(create|save|capture|refund|sale|void|execute|update|delete|create_payment)$",
     "moves money or orders"),
)  # fmt: skip
_MODEL_CALL = re.compile(r"(^|\.)(chat\.completions|responses|(beta\.)?messages|completions|embeddings)\.create$")
_READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_SQL = re.compile(r"\s*(insert|update|delete|merge|drop|alter|truncate)\b", re.IGNORECASE)
_NAMES = re.compile(
    r"(^|_)(refund|pay|charge|transfer|payout|send|email|delete|remove|create|update|cancel|book|merge|deploy|publish|post|issue|grant|revoke|submit|order)(_|$)"
)
_READS = re.compile(r"^(get|read|list|fetch|find|search|lookup|look_up|show|describe|check)(_|$)")
_FINDS = re.compile(r"^(find|search|lookup|look_up|list)(_|$)")
_ID = re.compile(
    r"(^|_)(id|ids|number|ref|sku|uuid|code)$|^(order|invoice|charge|payment_intent|pi|ticket|account|customer)$"
)
_OWNER = re.compile(r"^(customer|user|account|tenant|owner|shop)(_|$)")
_VERBS = re.compile(
    r"(get|read|list|fetch|find|search|lookup|look|up|show|describe|check|head|retrieve|create|make|add|put|post|send|update|set|delete|remove"
    r"|upload|modify|publish|issue|grant|revoke|submit|cancel|close|open|start|stop|run|do|by|for|of|the|a|all)"
)
"""Words of a name that do not say what it is about."""
_GENERIC = re.compile(r"(requests|httpx2?|aiohttp|urllib3?|niquests|subprocess|session|client|http|api)")
"""Clients that lead to anything: that two calls go through one says nothing of what they are about."""
_CARRIES = re.compile(r"^(idempotency_key|idempotency|reference|request_id|client_token|client_reference)$")
_READY_MADE = (
    (r"refunds?\.create", "stripe_refund"),
    (r"(payment_?intents?)\.(create|confirm|capture|cancel)", "stripe_payment_intent"),
    (r"transfers?\.create", "stripe_transfer"),
    (r"payouts?\.create", "stripe_payout"),
    (r"credit_?grants?\.create", "stripe_credit_grant"),
    (r"balance_?transactions?\.create|customer\.create_balance_transaction", "stripe_customer_balance"),
)
CASES = {
    "stripe_refund": "payment_intent",
    "stripe_payment_intent": "payment_intent",
    "stripe_transfer": "destination",
    "stripe_payout": "",
    "stripe_credit_grant": "customer",
    "stripe_customer_balance": "customer",
}
"""What a ready-made effect reads from its case, beside what its key reads."""


def effect_of(name: str, *, first: str | None, words: dict[str, str | None]) -> str:
    """What a call does outside; empty if nothing is known of it.

    Args:
        name: what is called, with dots; the first part is the module where it could be followed to one.
        first: the first argument if it is a text, or the words of a list of texts.
        words: the named arguments; the value where it is a text.
    """
    if _MODEL_CALL.search(name) and "twilio" not in name and "model" in words:
        return ""  # a question to a model changes nothing
    last = name.rpartition(".")[2]
    if last in ("execute", "executemany"):
        return "writes to a database" if first is not None and _SQL.match(first) else ""
    if name.startswith("subprocess.") and first is not None:
        said = first.split()
        return "runs git push" if "git" in said and "push" in said else ""
    if re.search(rf"^{_HTTP}\b.*\.request$|(^|\.)(session|client|http)\.request$", name):
        method = first or words.get("method") or ""
        return "" if method.upper() in _READ_METHODS else "sends an HTTP request that may write"
    if name.endswith("urllib.request.urlopen"):
        return "sends an HTTP request that may write" if "data" in words else ""
    return next((why for pattern, why in _CALLS if re.search(pattern, name)), "")


def ready_made(names: set[str]) -> str:
    """The ready-made effect of `interlock.targets.stripe` that does what one of these calls does; empty if there is none."""
    for pattern, made in _READY_MADE:
        if any(re.search(rf"(^|\.){pattern}(_async)?$", name, re.IGNORECASE) for name in names):
            return made
    return ""


def reads(name: str) -> bool:
    """Whether a function's name says that it only reads."""
    return bool(_READS.match(name))


def finds(name: str) -> bool:
    """Whether a function's name says that it finds something by what one knows of it."""
    return bool(_FINDS.match(name))


def changes(name: str) -> bool:
    """Whether a function's name says that it changes something."""
    return bool(_NAMES.search(name))


def is_id(parameter: str) -> bool:
    """Whether a parameter looks like the name of a request or of a thing."""
    return bool(_ID.search(parameter))


def is_owner(parameter: str) -> bool:
    """Whether an id looks like that of who has the thing, rather than of the thing."""
    return bool(_OWNER.search(parameter))


def things(name: str) -> set[str]:
    """What a function's name says that it is about: of `find_refund` a refund."""
    words = [word.rstrip("s") for word in name.lower().split("_") if word]
    return {word for word in words if word and not _VERBS.fullmatch(word)}


def makes(name: str) -> set[str]:
    """What an effect's name says that it makes: of `refund_order` the refund, of `create_ticket` the ticket."""
    first = name.lower().partition("_")[0]
    return things(name) if _VERBS.fullmatch(first) else {first.rstrip("s")}


def subject(call: str) -> str:
    """The client and the kind of object that a call to a service is about; empty if the client leads to anything."""
    before, _, last = call.replace("()", "").rpartition(".")
    root = before.partition(".")[0]
    if not root or _GENERIC.fullmatch(root):
        return ""
    verb, _, noun = last.lower().partition("_")
    kind = noun if noun and _VERBS.fullmatch(verb) else before.rpartition(".")[2]
    return f"{root}:{kind.lower().rstrip('s')}"


def carries_key(parameter: str) -> bool:
    """Whether a parameter looks like one that takes an idempotency key to the service."""
    return bool(_CARRIES.match(parameter))
