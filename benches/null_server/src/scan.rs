//! Finds the few values of a JSON-RPC request that an answer depends on, without building a tree.
//! Believes that the text is JSON; on nonsense it finds nothing, it never loops or panics.

/// The parts of one request, as slices of its text.
#[derive(Default)]
pub struct Request<'a> {
    /// The id as it was written, a number or a quoted string; `None` for a notification.
    pub id: Option<&'a [u8]>,
    pub method: &'a [u8],
    /// `params.name`.
    pub name: &'a [u8],
    /// `params.arguments.n`, the number that the size and progress tools take.
    pub n: Option<usize>,
    /// `params._meta.progressToken` as it was written.
    pub token: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    pub fn scan(text: &'a [u8]) -> Self {
        let mut request = Self::default();
        for (key, value) in Members::of(text) {
            match key {
                b"id" => request.id = Some(value),
                b"method" => request.method = unquoted(value),
                b"params" => request.scan_params(value),
                _ => {}
            }
        }
        request
    }

    fn scan_params(&mut self, text: &'a [u8]) {
        for (key, value) in Members::of(text) {
            match key {
                b"name" => self.name = unquoted(value),
                b"arguments" => {
                    self.n = member(value, b"n")
                        .and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
                }
                b"_meta" => self.token = member(value, b"progressToken"),
                _ => {}
            }
        }
    }
}

fn member<'a>(object: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    Members::of(object)
        .find(|(key, _)| *key == wanted)
        .map(|(_, value)| value)
}

fn unquoted(value: &[u8]) -> &[u8] {
    value
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""))
        .unwrap_or(value)
}

/// The members of an object: raw key without quotes, raw value.
struct Members<'a> {
    rest: &'a [u8],
}

impl<'a> Members<'a> {
    fn of(object: &'a [u8]) -> Self {
        Self {
            rest: object.trim_ascii_start().strip_prefix(b"{").unwrap_or(b""),
        }
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.rest.trim_ascii_start();
        let text = text.strip_prefix(b",").unwrap_or(text).trim_ascii_start();
        let (key, text) = text.split_at_checked(value_length(text))?;
        let text = text
            .trim_ascii_start()
            .strip_prefix(b":")?
            .trim_ascii_start();
        let (value, text) = text.split_at_checked(value_length(text))?;
        self.rest = text;
        Some((unquoted(key), value))
    }
}

/// The length of the JSON value that `text` begins with.
fn value_length(text: &[u8]) -> usize {
    match text.first() {
        Some(b'"') => string_length(text),
        Some(b'{' | b'[') => container_length(text),
        _ => text
            .iter()
            .position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t'))
            .unwrap_or(text.len()),
    }
}

fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', text.get(at..).unwrap_or(b"")) {
        at += found;
        if text[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

fn container_length(text: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => {
                at += string_length(&text[at..]);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}
