//! HTTP/1.1 as a client needs it: responses read, requests written. One file per concern; `response`
//! is the state machine that puts the readers together.

mod body;
mod content;
mod head;
mod request;
mod response;

pub use content::BodyDecoder;
pub use head::{Head, Kind, MAX_FIELDS};
pub use request::{Request, RequestTemplate};
pub use response::{Limits, ResponseDecoder};
