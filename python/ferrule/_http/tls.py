"""Which certificates are trusted, and what went wrong with one.

Knows the standard library's contexts and error codes. `ssl` (and its 35 ms for the system's
certificates) is only loaded when the first https connection needs it.
"""

from __future__ import annotations

import os
from _thread import allocate_lock

from ..errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

    Tls = ssl.SSLContext | str | os.PathLike[str] | None

# The one global of the package: 850 KB of certificates, never changed once made.
_lock = allocate_lock()
_default: ssl.SSLContext | None = None


def default_context() -> ssl.SSLContext:
    """The process's context that trusts what the system trusts."""
    global _default
    if _default is not None:
        return _default
    # Bounded: in the child of a fork the thread that held the lock may not exist. A second
    # context does no harm.
    locked = _lock.acquire(timeout=2.0)
    try:
        if _default is None:
            _default = _make(None, None)
        return _default
    finally:
        if locked:
            _lock.release()


def context_from(tls: Tls) -> ssl.SSLContext:
    """The context that a `tls=` argument asks for.

    Args:
        tls: None for the system's trust, the path of a CA file or directory to trust instead, or a
            context.

    Raises:
        ConfigError: It is something else (False too: checks cannot be switched off by accident), or
            cannot be loaded.
    """
    if tls is None:
        return default_context()
    if isinstance(tls, (str, os.PathLike)):
        path = os.fspath(tls)
        is_directory = os.path.isdir(path)
        try:
            return _make(None if is_directory else path, path if is_directory else None)
        except OSError as error:
            raise ConfigError(f"tls: cannot load CA certificates from {path}: {error.strerror}") from None
    check_tls(tls)
    return tls


def check_tls(tls: Tls) -> None:
    """Raise ConfigError when `tls` is nothing that `context_from` takes. Loads nothing."""
    if tls is None or isinstance(tls, (str, os.PathLike)):
        return
    # Asked by name so that an http client never imports ssl.
    if not any(kind.__name__ == "SSLContext" for kind in type(tls).__mro__):
        raise ConfigError(
            "tls: expected the path of a CA file or directory, or an ssl.SSLContext"
            " (one of your own if certificates must not be checked)"
        )


def _make(cafile: str | None, capath: str | None) -> ssl.SSLContext:
    import ssl

    context = ssl.create_default_context(cafile=cafile, capath=capath)
    context.set_alpn_protocols(["http/1.1"])
    return context


# X509_V_ERR_* (openssl/x509_vfy.h)
_VERIFY = {
    9: "the server's certificate is not valid yet",
    10: "the server's certificate has expired",
    18: "the server's certificate is self-signed and not trusted",
    19: "the server's certificate comes from an unknown certificate authority (self-signed root)",
    20: "the server's certificate comes from an unknown certificate authority",
    21: "the server's certificate comes from an unknown certificate authority",
    23: "the server's certificate was revoked",
    62: "the server's certificate is for another host name",
    64: "the server's certificate is for another IP address",
}

_REASONS = {
    "WRONG_VERSION_NUMBER": "the server does not speak TLS on this port",
    "HTTP_REQUEST": "the server does not speak TLS on this port",
    "RECORD_LAYER_FAILURE": "the server does not speak TLS on this port",
    "PACKET_LENGTH_TOO_LONG": "the server does not speak TLS on this port",
    "UNSUPPORTED_PROTOCOL": "no TLS version in common with the server",
    "TLSV1_ALERT_PROTOCOL_VERSION": "no TLS version in common with the server",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "the server refused the handshake (cipher or certificate)",
    "NO_CIPHERS_AVAILABLE": "no cipher is enabled",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the server wants a client certificate",
    "TLSV1_UNRECOGNIZED_NAME": "the server does not know this host name",
    "TLSV1_ALERT_UNKNOWN_CA": "the server does not trust the client certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the server refused the client certificate",
    "UNEXPECTED_EOF_WHILE_READING": "the server closed the connection during TLS",
}


def explain(error: Exception) -> str | None:
    """Say which TLS check failed, never in the peer's words; None if it is no TLS error."""
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        known = _VERIFY.get(error.verify_code)
        return known or f"the server's certificate was refused (check {error.verify_code})"
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        return _REASONS["UNEXPECTED_EOF_WHILE_READING"]
    if isinstance(error, ssl.SSLError):
        reason = error.reason or "unknown"
        return _REASONS.get(reason) or f"TLS failed ({reason.lower().replace('_', ' ')})"
    return None
