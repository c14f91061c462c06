//! Values of `Mcp-*` headers: plain text where HTTP can carry it, else base64 between sentinels
//! (2026-07-28, Streamable HTTP, Value Encoding). Knows no header names.

use std::borrow::Cow;

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// The value as a header carries it.
#[must_use]
pub fn encode(value: &str) -> Cow<'_, str> {
    if is_plain(value) {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(value.len().div_ceil(3) * 4 + PREFIX.len() + SUFFIX.len());
    out.push_str(PREFIX);
    push_base64(&mut out, value.as_bytes());
    out.push_str(SUFFIX);
    Cow::Owned(out)
}

/// The value that a header carried; `None` when it is between sentinels and its base64 is not in the one
/// canonical form, or is not of UTF-8.
#[must_use]
pub fn decode(value: &str) -> Option<Cow<'_, str>> {
    let inner = value
        .strip_prefix(PREFIX)
        .and_then(|open| open.strip_suffix(SUFFIX));
    match inner {
        None => Some(Cow::Borrowed(value)),
        Some(base64) => {
            let bytes = decode_base64(base64.as_bytes())?;
            Some(Cow::Owned(String::from_utf8(bytes).ok()?))
        }
    }
}

fn is_plain(value: &str) -> bool {
    let visible = |byte: u8| matches!(byte, 0x20..=0x7E);
    let looks_encoded = value.starts_with(PREFIX) && value.ends_with(SUFFIX);
    value.bytes().all(visible) && !value.starts_with(' ') && !value.ends_with(' ') && !looks_encoded
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn push_base64(out: &mut String, bytes: &[u8]) {
    for group in bytes.chunks(3) {
        let mut bits = 0_u32;
        for index in 0..3 {
            bits = bits << 8 | u32::from(group.get(index).copied().unwrap_or(0));
        }
        for index in 0..4 {
            let sextet = (bits >> (18 - 6 * index)) & 0x3F;
            let letter = ALPHABET.get(sextet as usize).copied().unwrap_or(b'=');
            out.push(char::from(if index > group.len() { b'=' } else { letter }));
        }
    }
}

fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() % 4 != 0 {
        return None;
    }
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let (letters, _) = text.split_at_checked(text.len().checked_sub(padding)?)?;
    if padding > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for group in letters.chunks(4) {
        let mut bits = 0_u32;
        for index in 0..4 {
            let sextet = group.get(index).map_or(Some(0), |letter| sextet(*letter))?;
            bits = bits << 6 | sextet;
        }
        let [_, bytes @ ..] = bits.to_be_bytes();
        let (used, unused) = bytes.split_at_checked(group.len().checked_sub(1)?)?;
        if unused.iter().any(|byte| *byte != 0) {
            return None; // Bits that stand for nothing: two texts would mean one value.
        }
        out.extend_from_slice(used);
    }
    Some(out)
}

fn sextet(letter: u8) -> Option<u32> {
    let value = match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}
