//! The JSON-RPC envelope: put around parameters that are serialised already, and looked into for
//! the id of a message that is too large to be read. Parses no values.

use crate::error::wide;
use crate::{Code, Fault, Splice};
use std::io::Write as _;

/// A request or, without an id, a notification.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call<'a> {
    /// The id of the request.
    pub id: Option<i64>,
    /// The method.
    pub method: &'a str,
    /// A serialised object without `_meta`.
    pub params: Option<&'a [u8]>,
    /// A serialised object: members of `params._meta`.
    pub meta: Option<&'a [u8]>,
    /// More members of `params._meta`.
    pub extra_meta: Option<&'a [u8]>,
}

impl<'a> Call<'a> {
    /// The message, with `ending` behind it.
    ///
    /// # Errors
    ///
    /// Parameters or `_meta` are no serialised objects.
    pub fn encode(&self, ending: &'static [u8]) -> Result<Splice<'a>, Fault> {
        let params = members(self.params, 0)?;
        let meta = members(self.meta, 1)?;
        let extra_meta = members(self.extra_meta, 2)?;
        let mut splice = Splice::new(self.lead());
        if params.is_none() && meta.is_none() && extra_meta.is_none() {
            splice.push(b"}");
            splice.push(ending);
            return Ok(splice);
        }
        splice.push(b",\"params\":{");
        let params = params.unwrap_or_default();
        splice.push(params);
        if meta.is_some() || extra_meta.is_some() {
            let meta = meta.unwrap_or_default();
            let extra_meta = extra_meta.unwrap_or_default();
            splice.push(comma_between(params, b"_"));
            splice.push(b"\"_meta\":{");
            splice.push(meta);
            splice.push(comma_between(meta, extra_meta));
            splice.push(extra_meta);
            splice.push(b"}");
        }
        splice.push(b"}}");
        splice.push(ending);
        Ok(splice)
    }

    fn lead(&self) -> Vec<u8> {
        let mut lead = Vec::with_capacity(64 + self.method.len());
        lead.extend_from_slice(b"{\"jsonrpc\":\"2.0\",");
        if let Some(id) = self.id {
            lead.extend_from_slice(b"\"id\":");
            push_number(&mut lead, id);
            lead.push(b',');
        }
        lead.extend_from_slice(b"\"method\":\"");
        push_escaped(&mut lead, self.method);
        lead.push(b'"');
        lead
    }
}

pub(crate) fn push_number(out: &mut Vec<u8>, number: impl std::fmt::Display) {
    // Writing to a vector cannot fail.
    let _ = write!(out, "{number}");
}

fn push_escaped(out: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..=0x1F => {
                let _ = write!(out, "\\u{byte:04x}");
            }
            _ => out.push(byte),
        }
    }
}

fn comma_between(before: &[u8], after: &[u8]) -> &'static [u8] {
    if before.is_empty() || after.is_empty() {
        b""
    } else {
        b","
    }
}

/// What is between the braces of the serialised object that is argument number `index`.
fn members(object: Option<&[u8]>, index: u64) -> Result<Option<&[u8]>, Fault> {
    let Some(object) = object else {
        return Ok(None);
    };
    let braced = object.trim_ascii();
    let inner = braced
        .strip_prefix(b"{")
        .and_then(|open| open.strip_suffix(b"}"));
    match inner {
        Some(inner) => Ok(Some(inner.trim_ascii())),
        None => Err(Fault::new(Code::NotAnObject, index, wide(object.len()))),
    }
}

/// The id of the response whose first bytes these are: a top-level integer (or a string of one) named
/// `id`. `None` when it is not there, or when a `method` shows that the message is no response.
#[must_use]
pub fn response_id(beginning: &[u8]) -> Option<i64> {
    let mut cursor = Cursor { rest: beginning };
    let mut id = None;
    cursor.expect(b'{')?;
    loop {
        // The beginning ends somewhere; what was found until then counts.
        let Some((key, value)) = cursor.member() else {
            return id;
        };
        match key {
            b"method" => return None,
            b"id" => id = std::str::from_utf8(unquoted(value)).ok()?.parse().ok(),
            _ => {}
        }
        if cursor.expect(b',').is_none() {
            return id;
        }
    }
}

fn unquoted(value: &[u8]) -> &[u8] {
    let inner = value
        .strip_prefix(b"\"")
        .and_then(|open| open.strip_suffix(b"\""));
    inner.unwrap_or(value)
}

/// Walks over the beginning of an object. Every method returns `None` when the bytes end first.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn expect(&mut self, wanted: u8) -> Option<()> {
        self.rest = self.rest.trim_ascii_start().strip_prefix(&[wanted])?;
        Some(())
    }

    /// The text of a key and of its value.
    fn member(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        self.rest = self.rest.trim_ascii_start();
        let key = self.value()?;
        let name = key.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        self.expect(b':')?;
        self.rest = self.rest.trim_ascii_start();
        let value = self.value()?;
        Some((name, value))
    }

    /// Takes one value whose end is certain: a number needs something behind it.
    fn value(&mut self) -> Option<&'a [u8]> {
        let mut depth = 0_usize;
        let mut size = 0;
        while let Some(byte) = self.rest.get(size) {
            match byte {
                b'"' => size += string_size(self.rest.get(size..)?)?,
                b'[' | b'{' => {
                    depth += 1;
                    size += 1;
                }
                b']' | b'}' if depth > 1 => {
                    depth -= 1;
                    size += 1;
                }
                b']' | b'}' if depth == 1 => return self.split(size + 1),
                b',' | b':' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => {
                    return self.split(size);
                }
                _ => size += 1,
            }
        }
        None
    }

    fn split(&mut self, size: usize) -> Option<&'a [u8]> {
        let (value, rest) = self.rest.split_at_checked(size)?;
        self.rest = rest;
        Some(value)
    }
}

/// The size of the string that `text` starts with, quotes included.
fn string_size(text: &[u8]) -> Option<usize> {
    let mut size = 1;
    loop {
        let at = memchr::memchr2(b'"', b'\\', text.get(size..)?)?;
        size += at;
        if text.get(size) == Some(&b'"') {
            return Some(size + 1);
        }
        size += 2;
    }
}
