//! Decoders in the plainest way, of whole inputs: what the real ones are compared with. Slow, unbounded,
//! and written from the specifications, not from the real ones.

use ferrule_wire::OwnedFrame;

/// Events without flags: data, id, retry, type.
pub type PlainEvent = (Vec<u8>, Option<String>, Option<u64>, Option<String>);

/// WHATWG, "Parsing an event stream" and "Interpreting an event stream".
pub fn events(input: &[u8]) -> Vec<PlainEvent> {
    let mut events = Vec::new();
    let mut data: Vec<u8> = Vec::new();
    let (mut id, mut retry, mut kind) = (None, None, None);
    for line in event_lines(input.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(input)) {
        if line.is_empty() {
            data.pop(); // The LF behind the last data line.
            if !data.is_empty() || id.is_some() || retry.is_some() {
                events.push((data.clone(), id.take(), retry.take(), kind.take()));
            }
            data.clear();
            kind = None;
            continue;
        }
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            None => (line, &[][..]),
            Some(colon) => (&line[..colon], &line[colon + 1..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                data.extend_from_slice(value);
                data.push(b'\n');
            }
            b"event" => {
                let text = String::from_utf8_lossy(value).into_owned();
                kind = (!matches!(text.as_str(), "" | "message")).then_some(text);
            }
            b"id" if !value.contains(&0) => {
                id = String::from_utf8(value.to_vec()).ok().or(id);
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let digits = std::str::from_utf8(value).unwrap_or_default();
                retry = Some(digits.parse().unwrap_or(u64::MAX));
            }
            _ => {}
        }
    }
    if retry.is_some() {
        events.push((Vec::new(), None, retry, None));
    }
    events
}

/// The lines of an event stream that are ended.
fn event_lines(input: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < input.len() {
        let size = match &input[at..] {
            [b'\r', b'\n', ..] => 2,
            [b'\r' | b'\n', ..] => 1,
            _ => 0,
        };
        if size > 0 {
            lines.push(&input[start..at]);
            start = at + size;
        }
        at += size.max(1);
    }
    lines
}

/// Lines that are ended, not empty and within the limit.
pub fn lines(input: &[u8], limit: usize) -> Vec<Vec<u8>> {
    let mut lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    lines.pop();
    let mut found = Vec::new();
    for (index, line) in lines.into_iter().enumerate() {
        let is_long = line.len() > limit;
        let line = match line.strip_prefix(b"\xEF\xBB\xBF") {
            Some(stripped) if index == 0 => stripped,
            _ => line,
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() && !is_long {
            found.push(line.to_vec());
        }
    }
    found
}

/// What a chunked body decodes to, when it is well-formed in the narrow sense of RFC 9112 without
/// extensions and trailers.
pub fn plain_chunks(input: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    let mut rest = input;
    loop {
        let line = rest.windows(2).position(|pair| pair == b"\r\n")?;
        let digits = std::str::from_utf8(&rest[..line]).ok()?;
        if digits.is_empty() || digits.len() > 16 || digits.starts_with('+') {
            return None;
        }
        let size = usize::from_str_radix(digits, 16).ok()?;
        rest = &rest[line + 2..];
        if size == 0 {
            return (rest == b"\r\n").then_some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

/// Whether a fast JSON parser would change the message: a run of digits beyond 64 bit that is an integer, or
/// an escaped surrogate without its other half.
pub fn must_be_slow(message: &[u8]) -> bool {
    has_big_integer(message) || has_lone_surrogate(message)
}

fn has_big_integer(message: &[u8]) -> bool {
    let mut at = 0;
    while at < message.len() {
        let size = message[at..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let before = at.checked_sub(1).map(|at| message[at]);
        let after = message.get(at + size);
        let digits = std::str::from_utf8(&message[at..at + size]).unwrap_or_default();
        let fits = match before {
            Some(b'-') => format!("-{digits}").parse::<i64>().is_ok(),
            _ => digits.parse::<u64>().is_ok(),
        };
        let is_float = before == Some(b'.') || matches!(after, Some(b'.' | b'e' | b'E'));
        if size > 0 && !fits && !is_float {
            return true;
        }
        at += size.max(1);
    }
    false
}

fn has_lone_surrogate(message: &[u8]) -> bool {
    let mut waits_for_low = false;
    let mut at = 0;
    while at < message.len() {
        let unit = match &message[at..] {
            [b'\\', b'u', a, b, c, d, ..] => std::str::from_utf8(&[*a, *b, *c, *d])
                .ok()
                .filter(|digits| !digits.starts_with('+'))
                .and_then(|digits| u16::from_str_radix(digits, 16).ok()),
            _ => None,
        };
        let is_low = matches!(unit, Some(0xDC00..=0xDFFF));
        if waits_for_low != is_low {
            return true;
        }
        waits_for_low = matches!(unit, Some(0xD800..=0xDBFF));
        at += match (unit, message[at]) {
            (Some(_), _) => 6,
            (None, b'\\') => 2,
            _ => 1,
        };
    }
    waits_for_low
}

/// The events among frames, as plain ones; `None` when a fault cut the stream short.
pub fn as_plain_events(frames: &[OwnedFrame]) -> Option<Vec<PlainEvent>> {
    let mut events = Vec::new();
    for frame in frames {
        match frame {
            OwnedFrame::Event(data, _, id, retry, kind) => {
                let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
                events.push((data.clone(), text(id), *retry, text(kind)));
            }
            _ => return None,
        }
    }
    Some(events)
}
