"""ferrule: a Model Context Protocol client.

    from ferrule import Client, Stdio

    with Client(Stdio("npx", "-y", "@modelcontextprotocol/server-everything")) as client:
        print([tool.name for tool in client.list_tools()])

Names are loaded when they are first used: importing the package costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import errors as errors
    from . import server as server
    from . import skills as skills
    from . import types as types
    from ._async_handles import AsyncSubscription as AsyncSubscription
    from ._async_handles import AsyncTask as AsyncTask
    from ._handles import Subscription as Subscription
    from ._handles import Task as Task
    from ._http.endpoints import Tcp as Tcp
    from ._http.endpoints import Unix as Unix
    from ._io.memory_cache import MemoryCache as MemoryCache
    from ._protocol.envelope import RequestEnvelope as RequestEnvelope
    from ._session.cache import CacheInfo as CacheInfo
    from ._session.cache import ResponseCache as ResponseCache
    from ._session.extensions import Extension as Extension
    from ._session.retry import Retry as Retry
    from ._transports.byte_stream import ByteStream as ByteStream
    from ._transports.command import Stdio as Stdio
    from .async_client import AsyncClient as AsyncClient
    from .client import Client as Client
    from .errors import FerruleError as FerruleError
    from .limits import Limits as Limits
    from .redis_cache import RedisCache as RedisCache
    from .types.elicitation import ElicitResult as ElicitResult
    from .types.roots import Root as Root
    from .types.sampling import CreateMessageResult as CreateMessageResult
    from .types.sampling import SamplingRejected as SamplingRejected

    __version__: str

_HOMES = {
    "AsyncClient": "async_client",
    "AsyncSubscription": "_async_handles",
    "AsyncTask": "_async_handles",
    "ByteStream": "_transports.byte_stream",
    "CacheInfo": "_session.cache",
    "Client": "client",
    "CreateMessageResult": "types.sampling",
    "ElicitResult": "types.elicitation",
    "Extension": "_session.extensions",
    "FerruleError": "errors",
    "Limits": "limits",
    "RequestEnvelope": "_protocol.envelope",
    "MemoryCache": "_io.memory_cache",
    "RedisCache": "redis_cache",
    "ResponseCache": "_session.cache",
    "Retry": "_session.retry",
    "Root": "types.roots",
    "SamplingRejected": "types.sampling",
    "Stdio": "_transports.command",
    "Subscription": "_handles",
    "Task": "_handles",
    "Tcp": "_http.endpoints",
    "Unix": "_http.endpoints",
}
_MODULES = ("errors", "server", "skills", "types")

__all__ = [
    "AsyncClient",
    "AsyncSubscription",
    "AsyncTask",
    "ByteStream",
    "CacheInfo",
    "Client",
    "CreateMessageResult",
    "ElicitResult",
    "Extension",
    "FerruleError",
    "Limits",
    "MemoryCache",
    "RedisCache",
    "RequestEnvelope",
    "ResponseCache",
    "Retry",
    "Root",
    "SamplingRejected",
    "Stdio",
    "Subscription",
    "Task",
    "Tcp",
    "Unix",
    "__version__",
    "errors",
    "server",
    "skills",
    "types",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _HOMES:
        value: object = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    elif name in _MODULES:
        return import_module(f".{name}", __name__)
    elif name == "__version__":
        value = import_module("._wire", __name__).VERSION
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
