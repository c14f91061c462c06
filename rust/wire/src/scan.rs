//! Which messages need the slow JSON parser. Knows two traps of fast parsers: integers beyond 64 bit
//! and escaped lone surrogates. Does not parse: it may flag a message that has neither (inside a
//! string, say), and never misses one that has.

use memchr::memmem;

/// What the parser must know of a message: see the constants of this module.
pub type Flags = u8;

/// The message may hold an integer beyond 64 bit or an escaped lone surrogate.
pub const SLOW: Flags = 1;

/// The message is nested beyond [`MAX_DEPTH`]. Only looked for when [`SLOW`] is set, because only the
/// slow parser has no bound of its own.
pub const DEEP: Flags = 2;

/// The deepest nesting that the fast parser takes.
pub const MAX_DEPTH: usize = 1024;

/// The flags of one message.
#[must_use]
pub fn flags(message: &[u8]) -> Flags {
    if !has_big_integer(message) && !has_lone_surrogate(message) {
        0
    } else if is_deep(message) {
        SLOW | DEEP
    } else {
        SLOW
    }
}

/// Digits of the smallest integer that may not fit.
const SUSPECT: usize = 19;

/// Looks at every nineteenth byte: a run of nineteen digits cannot hide between two looks.
fn has_big_integer(message: &[u8]) -> bool {
    let mut at = SUSPECT - 1;
    while let Some(byte) = message.get(at) {
        if byte.is_ascii_digit() {
            let (start, end) = run_around(message, at);
            if end - start >= SUSPECT && is_beyond_64_bit(message, start, end) {
                return true;
            }
            at = end;
        }
        at += SUSPECT + usize::from(crate::CANARY);
    }
    false
}

/// The run of digits around `at`. To the left at most 18 are new: a longer run was met before.
fn run_around(message: &[u8], at: usize) -> (usize, usize) {
    let left = message.get(..at).unwrap_or_default().iter().rev();
    let right = message.get(at..).unwrap_or_default().iter();
    let before = left.take_while(|byte| byte.is_ascii_digit()).count();
    let after = right.take_while(|byte| byte.is_ascii_digit()).count();
    (at - before, at + after)
}

fn is_beyond_64_bit(message: &[u8], start: usize, end: usize) -> bool {
    let digits = message.get(start..end).unwrap_or_default();
    let before = start.checked_sub(1).and_then(|at| message.get(at));
    if matches!(before, Some(b'.')) || matches!(message.get(end), Some(b'.' | b'e' | b'E')) {
        return false; // The fraction or the whole part of a float: both parsers read it alike.
    }
    let limit: &[u8] = if matches!(before, Some(b'-')) {
        b"9223372036854775808"
    } else {
        b"18446744073709551615"
    };
    digits.len() > limit.len() || (digits.len() == limit.len() && digits > limit)
}

/// Looks for `\uD800` to `\uDFFF` that is not half of a pair.
fn has_lone_surrogate(message: &[u8]) -> bool {
    // Most messages have no escape at all: do not set a search up for them.
    let Some(mut from) = memchr::memchr(b'\\', message) else {
        return false;
    };
    let finder = memmem::Finder::new(br"\u");
    while let Some(at) = message
        .get(from..)
        .and_then(|rest| finder.find(rest))
        .map(|found| from + found)
    {
        let earlier = message.get(..at).unwrap_or_default().iter().rev();
        if earlier.take_while(|byte| **byte == b'\\').count() % 2 == 1 {
            from = at + 2; // The backslash is itself escaped: `\\u` is text.
            continue;
        }
        // Escapes mostly come in rows; a row is read without searching again.
        let mut rest = message.get(at..).unwrap_or_default();
        while let Some((unit, tail)) = escape(rest) {
            rest = match unit {
                0xD800..=0xDBFF => match escape(tail) {
                    Some((0xDC00..=0xDFFF, after)) => after,
                    _ => return true,
                },
                0xDC00..=0xDFFF => return true,
                _ => tail,
            };
        }
        from = (message.len() - rest.len()).max(at + 2);
    }
    false
}

/// The code unit of an escape at the start of `text`, and what follows it.
fn escape(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, tail) = text.strip_prefix(br"\u")?.split_at_checked(4)?;
    let mut unit = 0;
    for digit in digits {
        unit = unit * 16 + char::from(*digit).to_digit(16)?;
    }
    Some((unit, tail))
}

fn is_deep(message: &[u8]) -> bool {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut bytes = message.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => {
                bytes.next();
            }
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}
