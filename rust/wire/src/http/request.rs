//! Request heads, checked against injection, around bodies that are serialised already. Knows which bytes
//! a head may hold and which fields the framing owns; which fields a request needs is the caller's.

use crate::error::wide;
use crate::jsonrpc::{Call, push_number};
use crate::{Code, Fault, Splice, header_value};

/// Fields by name and value.
pub type Fields<'a> = &'a [(&'a str, &'a str)];

/// The part of a session's requests that never changes.
#[derive(Debug)]
pub struct RequestTemplate {
    /// Request line and fields, without the blank line.
    head: Vec<u8>,
    mirror: bool,
}

/// One request, ready to be copied into one allocation.
#[derive(Debug)]
pub struct Request<'a> {
    head: &'a [u8],
    fields: Vec<u8>,
    body: Splice<'a>,
}

impl RequestTemplate {
    /// The template of requests with this line and these fields; `mirror`: repeat the JSON-RPC method and
    /// the name in `Mcp-Method` and `Mcp-Name`.
    ///
    /// # Errors
    ///
    /// Something cannot be sent: see [`Code`] from `HeaderName` on.
    pub fn new(
        method: &str,
        target: &str,
        fields: Fields<'_>,
        mirror: bool,
    ) -> Result<Self, Fault> {
        let is_target = |byte: u8| byte.is_ascii_graphic();
        if !is_token(method) {
            return Err(Fault::new(Code::RequestLine, 0, wide(method.len())));
        }
        if target.is_empty() || !target.bytes().all(is_target) {
            return Err(Fault::new(Code::RequestLine, 1, wide(target.len())));
        }
        let mut head = Vec::with_capacity(256);
        for part in [method, " ", target, " HTTP/1.1\r\n"] {
            head.extend_from_slice(part.as_bytes());
        }
        push_fields(&mut head, fields)?;
        Ok(RequestTemplate { head, mirror })
    }

    /// The request that posts a call.
    ///
    /// # Errors
    ///
    /// A field cannot be sent, or the parameters are no object.
    pub fn call<'a>(
        &'a self,
        call: &Call<'a>,
        name: Option<&str>,
        fields: Fields<'_>,
    ) -> Result<Request<'a>, Fault> {
        let body = call.encode(b"")?;
        let mut lines = Vec::with_capacity(128);
        if self.mirror {
            push_field(&mut lines, "Mcp-Method", &header_value::encode(call.method));
            if let Some(name) = name {
                push_field(&mut lines, "Mcp-Name", &header_value::encode(name));
            }
        }
        self.with_length(lines, body, fields)
    }

    /// The request that posts a message.
    ///
    /// # Errors
    ///
    /// A field cannot be sent.
    pub fn message<'a>(
        &'a self,
        message: &'a [u8],
        fields: Fields<'_>,
    ) -> Result<Request<'a>, Fault> {
        let mut body = Splice::new(Vec::new());
        body.push(message);
        self.with_length(Vec::new(), body, fields)
    }

    /// The request that has no body.
    ///
    /// # Errors
    ///
    /// A field cannot be sent.
    pub fn bare<'a>(&'a self, fields: Fields<'_>) -> Result<Request<'a>, Fault> {
        let mut lines = Vec::new();
        push_fields(&mut lines, fields)?;
        lines.extend_from_slice(b"\r\n");
        Ok(Request {
            head: &self.head,
            fields: lines,
            body: Splice::default(),
        })
    }

    fn with_length<'a>(
        &'a self,
        mut lines: Vec<u8>,
        body: Splice<'a>,
        fields: Fields<'_>,
    ) -> Result<Request<'a>, Fault> {
        push_fields(&mut lines, fields)?;
        lines.extend_from_slice(b"Content-Length: ");
        push_number(&mut lines, body.len());
        lines.extend_from_slice(b"\r\n\r\n");
        Ok(Request {
            head: &self.head,
            fields: lines,
            body,
        })
    }
}

impl Request<'_> {
    /// The size of the whole.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.len() + self.fields.len() + self.body.len()
    }

    /// Never: a request has a line.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the whole into `out`, which has [`len`](Self::len) bytes.
    pub fn copy_into(&self, out: &mut [u8]) {
        let mut out = out;
        for part in [self.head, self.fields.as_slice()] {
            let size = part.len().min(out.len());
            let (now, later) = out.split_at_mut(size);
            now.copy_from_slice(part.get(..size).unwrap_or_default());
            out = later;
        }
        self.body.copy_into(out);
    }

    /// The whole as a vector.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![0; self.len()];
        self.copy_into(&mut out);
        out
    }
}

fn push_fields(out: &mut Vec<u8>, fields: Fields<'_>) -> Result<(), Fault> {
    for (index, (name, value)) in fields.iter().enumerate() {
        check_field(name, value)
            .map_err(|(code, size)| Fault::new(code, wide(index), wide(size)))?;
        push_field(out, name, value);
    }
    Ok(())
}

/// Appends a field that was checked, its value as Latin-1.
fn push_field(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend(value.chars().filter_map(|char| u8::try_from(char).ok()));
    out.extend_from_slice(b"\r\n");
}

fn check_field(name: &str, value: &str) -> Result<(), (Code, usize)> {
    let is_sendable = |char: char| {
        matches!(char, '\t' | ' '..='~' | '\u{A0}'..='\u{FF}') || (crate::CANARY && char == '\n')
    };
    if !is_token(name) {
        Err((Code::HeaderName, name.len()))
    } else if name.eq_ignore_ascii_case("content-length")
        || name.eq_ignore_ascii_case("transfer-encoding")
    {
        Err((Code::FramingHeader, name.len()))
    } else if !value.chars().all(is_sendable) {
        Err((Code::HeaderValue, value.len()))
    } else {
        Ok(())
    }
}

fn is_token(name: &str) -> bool {
    let is_token_byte = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'!' | b'#'
                    | b'$'
                    | b'%'
                    | b'&'
                    | b'\''
                    | b'*'
                    | b'+'
                    | b'-'
                    | b'.'
                    | b'^'
                    | b'_'
                    | b'`'
                    | b'|'
                    | b'~'
            )
    };
    !name.is_empty() && name.bytes().all(is_token_byte)
}
