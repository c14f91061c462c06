"""How messages reach a server: over streamable HTTP, or over a child's standard streams.

A transport carries one request to its one answer. It knows nothing of retries, negotiation or results.
"""
