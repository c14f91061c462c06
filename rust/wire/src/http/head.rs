//! The head of a response: where it ends, what it says. Knows the fields that decide how the message is
//! framed and what its body is; keeps the others as they came. Parsing itself is httparse's.

use crate::error::wide;
use crate::{Code, Fault};
use memchr::memchr;
use std::mem::MaybeUninit;
use std::ops::Range;

/// The most fields that a head may have.
pub const MAX_FIELDS: usize = 128;

/// Finds the blank line that ends a head, over any number of reads.
#[derive(Debug)]
pub(super) struct EndFinder {
    line: Line,
}

#[derive(Clone, Copy, Debug)]
enum Line {
    Empty,
    Cr,
    Text,
}

impl EndFinder {
    pub(super) const fn new() -> Self {
        EndFinder { line: Line::Empty }
    }

    /// How many of the bytes belong to the head, and whether it is complete.
    pub(super) fn find(&mut self, input: &[u8]) -> (usize, bool) {
        let mut rest = input;
        while let Some(size) = memchr(b'\n', rest) {
            let (line, tail) = rest.split_at(size);
            let line = self.extend(line);
            self.line = Line::Empty;
            rest = tail.get(1..).unwrap_or_default();
            if matches!(line, Line::Empty | Line::Cr) {
                return (input.len() - rest.len(), true);
            }
        }
        if !crate::CANARY {
            self.line = self.extend(rest);
        }
        (input.len(), false)
    }

    fn extend(&self, more: &[u8]) -> Line {
        match (self.line, more) {
            (line, []) => line,
            (Line::Empty, [b'\r']) => Line::Cr,
            _ => Line::Text,
        }
    }
}

/// What the body of a response is, by its Content-Type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Anything else, or not told.
    Other = 0,
    /// `application/json`, `application/*+json`, `text/json`.
    Json = 1,
    /// `text/event-stream`.
    Sse = 2,
}

impl Kind {
    /// Parameters do not count, nor does case.
    fn of(content_type: &[u8]) -> Self {
        let essence = content_type.split(|byte| *byte == b';').next();
        let essence = essence.unwrap_or_default().trim_ascii();
        let essence = essence.to_ascii_lowercase();
        match essence.as_slice() {
            b"application/json" | b"text/json" => Kind::Json,
            b"text/event-stream" => Kind::Sse,
            other if other.starts_with(b"application/") && other.ends_with(b"+json") => Kind::Json,
            _ => Kind::Other,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    name: Range<usize>,
    value: Range<usize>,
}

/// How the fields say that the body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declared {
    Nothing,
    Length(u64),
    Chunked,
}

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    bytes: Box<[u8]>,
    fields: Box<[Field]>,
    status: u16,
    kind: Kind,
    is_http_10: bool,
    encoding: Option<Box<str>>,
}

impl Head {
    /// Reads a complete head: everything up to and with its blank line.
    pub(super) fn parse(bytes: &[u8], position: u64) -> Result<Self, Fault> {
        let fault = |code| Fault::new(code, position, wide(bytes.len()));
        let mut storage = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            bytes,
            &mut storage,
        );
        match parsed {
            Ok(httparse::Status::Complete(size)) if size == bytes.len() => {}
            Ok(_) => return Err(fault(Code::BadStatusLine)),
            Err(error) => return Err(fault(code_of(error))),
        }
        let (Some(status), Some(version)) = (response.code, response.version) else {
            return Err(fault(Code::BadStatusLine));
        };
        if status < 100 {
            return Err(fault(Code::BadStatusLine));
        }
        let range = |part: &[u8]| {
            let start = part.as_ptr().addr() - bytes.as_ptr().addr();
            start..start + part.len()
        };
        let fields = response.headers.iter().map(|field| Field {
            name: range(field.name.as_bytes()),
            value: range(field.value),
        });
        let mut head = Head {
            fields: fields.collect(),
            bytes: bytes.into(),
            status,
            kind: Kind::Other,
            is_http_10: version == 0,
            encoding: None,
        };
        head.kind = head.get(b"content-type").map_or(Kind::Other, Kind::of);
        head.encoding = head.find_encoding();
        Ok(head)
    }

    /// The status code.
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// What the body is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The content codings in lower case, unless there are none.
    #[must_use]
    pub fn encoding(&self) -> Option<&str> {
        self.encoding.as_deref()
    }

    /// The first value of a field, its name compared without case.
    #[must_use]
    pub fn get<'a>(&'a self, name: &'a [u8]) -> Option<&'a [u8]> {
        self.get_all(name).next()
    }

    /// Every value of a field, in order.
    pub fn get_all<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let fields = self.fields.iter();
        let named = fields.filter(move |field| self.part(&field.name).eq_ignore_ascii_case(name));
        named.map(|field| self.part(&field.value))
    }

    /// Every field, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let fields = self.fields.iter();
        fields.map(|field| (self.part(&field.name), self.part(&field.value)))
    }

    /// The seconds that the server will keep an idle connection: `Keep-Alive: timeout=n`.
    #[must_use]
    pub fn keep_alive(&self) -> Option<u32> {
        self.tokens(b"keep-alive").find_map(|token| {
            let (name, value) = token.split_at_checked(memchr(b'=', token)?)?;
            let value = value.get(1..)?.trim_ascii();
            let is_timeout = name.trim_ascii().eq_ignore_ascii_case(b"timeout");
            is_timeout
                .then(|| std::str::from_utf8(value).ok()?.parse().ok())
                .flatten()
        })
    }

    /// Whether the server lets the connection carry another message after this one.
    pub(super) fn persists(&self) -> bool {
        let says = |wanted: &[u8]| {
            self.tokens(b"connection")
                .any(|token| token.eq_ignore_ascii_case(wanted))
        };
        !says(b"close") && (!self.is_http_10 || says(b"keep-alive"))
    }

    pub(super) const fn is_http_10(&self) -> bool {
        self.is_http_10
    }

    /// How the body is framed; `position`: where the head began.
    pub(super) fn declared(&self, position: u64) -> Result<Declared, Fault> {
        let fault = |code| Fault::new(code, position, wide(self.bytes.len()));
        let mut declared = Declared::Nothing;
        for value in self.tokens_and_blanks(b"content-length") {
            let length = parse_length(value).ok_or(fault(Code::BadLength))?;
            if declared != Declared::Nothing && declared != Declared::Length(length) {
                return Err(fault(Code::ConflictingLength));
            }
            declared = Declared::Length(length);
        }
        for coding in self.tokens_and_blanks(b"transfer-encoding") {
            if !coding.eq_ignore_ascii_case(b"chunked") {
                return Err(fault(Code::BadTransferEncoding));
            }
            match declared {
                Declared::Nothing => declared = Declared::Chunked,
                Declared::Length(_) => return Err(fault(Code::ConflictingLength)),
                Declared::Chunked => return Err(fault(Code::BadTransferEncoding)),
            }
        }
        Ok(declared)
    }

    fn find_encoding(&self) -> Option<Box<str>> {
        let mut codings = String::new();
        for token in self.tokens(b"content-encoding") {
            if token.eq_ignore_ascii_case(b"identity") {
                continue;
            }
            if !codings.is_empty() {
                codings.push_str(", ");
            }
            let lower = token.iter().map(u8::to_ascii_lowercase);
            codings.extend(lower.map(char::from));
        }
        (!codings.is_empty()).then(|| codings.into())
    }

    /// The members of a comma-separated list, over all fields of that name.
    fn tokens<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.tokens_and_blanks(name)
            .filter(|token| !token.is_empty())
    }

    fn tokens_and_blanks<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let members = |value: &'a [u8]| value.split(|byte| *byte == b',');
        self.get_all(name).flat_map(members).map(<[u8]>::trim_ascii)
    }

    fn part(&self, range: &Range<usize>) -> &[u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }
}

fn parse_length(value: &[u8]) -> Option<u64> {
    if value.iter().all(u8::is_ascii_digit) {
        std::str::from_utf8(value).ok()?.parse().ok()
    } else {
        None // `parse` alone would take a sign.
    }
}

const fn code_of(error: httparse::Error) -> Code {
    match error {
        httparse::Error::TooManyHeaders => Code::TooManyHeaders,
        httparse::Error::Status | httparse::Error::Version | httparse::Error::Token => {
            Code::BadStatusLine
        }
        httparse::Error::HeaderName | httparse::Error::HeaderValue | httparse::Error::NewLine => {
            Code::BadHeader
        }
    }
}
