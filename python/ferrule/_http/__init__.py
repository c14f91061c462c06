"""HTTP/1.1 over the core's decoder: URLs, connections, the pool of an origin, redirects.

Knows how one request and its response travel. It knows nothing of JSON-RPC, sessions or retries.
"""
