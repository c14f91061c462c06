//! Wire formats of the Model Context Protocol, without I/O: bytes become frames, calls become bytes.
//!
//! In scope: HTTP/1.1 responses and request heads, event streams, newline-delimited lines, the
//! JSON-RPC envelope around parameters that are serialised already, and `Mcp-*` header values.
//!
//! Out of scope: sockets, clocks, TLS, decompression, JSON values (the caller parses and
//! serialises them), HTTP/2, requests as a server reads them.
//!
//! Every decoder takes the bytes of one read and appends [`Frame`]s. Three rules hold for all:
//!
//! 1. Any split of the same bytes gives the same frames ([`Frame::Comment`] and the cuts between
//!    [`Frame::Data`] apart), and no byte is looked at again because a read ended before it.
//! 2. What is kept between reads is bounded by the limits given, whatever the peer sends.
//! 3. A fault says where and how much, never what: [`Fault`] holds no content.
#![forbid(unsafe_code)]

mod error;
mod frame;
pub mod header_value;
pub mod http;
pub mod jsonrpc;
mod lines;
mod rope;
pub mod scan;
mod splice;
mod sse;

pub use error::{Code, Fault};
pub use frame::{Event, Frame, Frames, OwnedFrame};
pub use lines::LineDecoder;
pub use rope::Payload;
pub use splice::Splice;
use sse::SseDecoder;

/// Whether the faults are planted that the fuzz targets must find, one a decoder: each is a way in which a
/// decoder that looks right in one read goes wrong in two, or an encoder lets one thing through.
const CANARY: bool = cfg!(feature = "canary");

/// The byte order mark that may open a JSON body, an event stream or a stream of lines.
const BOM: &[u8] = b"\xEF\xBB\xBF";
