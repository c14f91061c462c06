"""Answers that prove that a request was refused before execution: after one of them even `tools/call` is written again.

Knows statuses and codes. How often each leads to another try, and what has to be found out before it, is in
`_session/retry.py`'s table.
"""

from __future__ import annotations

STATUSES = frozenset({307, 308})
"""HTTP statuses: whoever redirects has not acted (RFC 9110, sections 15.4.8 and 15.4.9)."""
AUTHORIZATION = frozenset({401, 403})
"""HTTP statuses: the request was not authorized. 403 counts only with the challenge `insufficient_scope` (2026-07-28,
basic/authorization, Error Handling): without it, what was executed might say so."""
REVISION = -32022
"""The JSON-RPC code of a revision that was refused (2026-07-28, basic/versioning, Protocol Version Negotiation)."""
HEADERS = -32020
"""The one of headers that do not match the body (2026-07-28, basic/transports/streamable-http, Server Validation)."""
CODES = frozenset({REVISION, HEADERS})
"""JSON-RPC codes, from a server whose era has them."""
