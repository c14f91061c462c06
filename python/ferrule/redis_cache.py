"""Answers in a store that a whole fleet shares: Redis, or a server that speaks its language (Valkey, KeyDB).

Knows four commands. The client that sends them is the user's, with its address, credentials, pool and timeouts.
"""

from __future__ import annotations

import os

from .errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class RedisCache:
    """Keeps answers in Redis (server/utilities/caching). Needs `pip install ferrule[redis]`.

        Client(url, cache=RedisCache(redis.Redis(host="cache", socket_timeout=0.5)))
        AsyncClient(url, cache=RedisCache(redis.asyncio.Redis(host="cache", socket_timeout=0.5)))

    All who share a server and a prefix share the public answers of the MCP servers they call, and a list that one of
    them hears has changed is dropped for all. They have to trust each other: who can write there decides what the
    others read. Answers lie there as JSON, unencrypted, until their time is over.

    Args:
        client: A `redis.Redis` for `Client`, a `redis.asyncio.Redis` for `AsyncClient`, without `decode_responses`.
            Give it a `socket_timeout`, and a `retry` that ends soon: while its server is out of reach calls go to the
            MCP server, after that long.
        prefix: What the keys begin with. Put different ones where one URL (loopback, say) stands for different
            servers. In a cluster it needs a hash tag, such as "{mcp}:".
        secret: At least 16 bytes, the same in all processes that are to share private answers between callers with the
            same credentials. Default: a random one, and private answers stay within this object.

    Raises:
        ConfigError: The client decodes what it reads, or the secret is too short.
    """

    __slots__ = ("_client", "_prefix", "secret")

    never_waits = False

    def __init__(self, client: Any, *, prefix: str = "ferrule:", secret: bytes | None = None) -> None:
        pool = getattr(client, "connection_pool", None)
        if pool is not None and pool.connection_kwargs.get("decode_responses"):
            raise ConfigError("RedisCache: the client must not be made with decode_responses=True")
        if secret is not None and (not isinstance(secret, bytes) or len(secret) < 16):
            raise ConfigError("RedisCache: secret must be at least 16 bytes")
        self._client = client
        self._prefix = prefix.encode()
        self.secret = secret if secret is not None else os.urandom(32)

    def __repr__(self) -> str:
        return "<RedisCache>"

    def get(self, keys: Sequence[bytes], /) -> Any:
        """See `ResponseCache.get`: one round trip."""
        return self._client.mget([self._prefix + key for key in keys])

    def put(self, key: bytes, value: bytes, seconds: float, /) -> Any:
        """See `ResponseCache.put`."""
        return self._client.set(self._prefix + key, value, px=max(1, int(seconds * 1000)))

    def delete(self, keys: Sequence[bytes], /) -> Any:
        """See `ResponseCache.delete`."""
        return self._client.delete(*[self._prefix + key for key in keys])
