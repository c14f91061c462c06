//! What can be wrong with bytes: a code, a position and a size. Knows no content and no texts for
//! people; those are made in Python, where the call that failed is known.

/// The kinds of fault, with stable numbers and names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// Bytes arrived although no response was expected.
    Unsolicited = 1,
    /// The stream ended inside a message.
    Truncated = 2,
    /// The heads (or the trailers) of a response are larger than the limit.
    HeadTooLarge = 3,
    /// A head has more fields than [`http::MAX_FIELDS`](crate::http::MAX_FIELDS).
    TooManyHeaders = 4,
    /// The first line is not that of an HTTP/1.0 or HTTP/1.1 response.
    BadStatusLine = 5,
    /// A field has a bad name, a forbidden character, or is folded.
    BadHeader = 6,
    /// Content-Length is not a number.
    BadLength = 7,
    /// Two lengths that differ, or a length beside a transfer coding.
    ConflictingLength = 8,
    /// A transfer coding other than chunked.
    BadTransferEncoding = 9,
    /// The chunked framing is broken.
    BadChunk = 10,
    /// A trailer holds a forbidden character.
    BadTrailer = 11,
    /// A body or an event is larger than the limit.
    MessageTooLarge = 12,
    /// A line is larger than the limit. The decoder goes on behind it.
    LineTooLong = 13,
    /// A read reported more bytes than the buffer holds, or fewer than none.
    BadCount = 14,
    /// A header name is no token (position: index of the header).
    HeaderName = 15,
    /// A header value holds a character that cannot be sent (position: index of the header).
    HeaderValue = 16,
    /// A header that the framing owns: Content-Length or Transfer-Encoding (position: its index).
    FramingHeader = 17,
    /// The method or the target of a request cannot be sent.
    RequestLine = 18,
    /// Parameters or `_meta` are not a serialised object (position: index of the argument).
    NotAnObject = 19,
}

impl Code {
    /// Every code.
    pub const ALL: [Code; 19] = [
        Code::Unsolicited,
        Code::Truncated,
        Code::HeadTooLarge,
        Code::TooManyHeaders,
        Code::BadStatusLine,
        Code::BadHeader,
        Code::BadLength,
        Code::ConflictingLength,
        Code::BadTransferEncoding,
        Code::BadChunk,
        Code::BadTrailer,
        Code::MessageTooLarge,
        Code::LineTooLong,
        Code::BadCount,
        Code::HeaderName,
        Code::HeaderValue,
        Code::FramingHeader,
        Code::RequestLine,
        Code::NotAnObject,
    ];

    /// The number that crosses to Python.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The name in lower case, as Python and the test vectors spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Code::Unsolicited => "unsolicited",
            Code::Truncated => "truncated",
            Code::HeadTooLarge => "head_too_large",
            Code::TooManyHeaders => "too_many_headers",
            Code::BadStatusLine => "bad_status_line",
            Code::BadHeader => "bad_header",
            Code::BadLength => "bad_length",
            Code::ConflictingLength => "conflicting_length",
            Code::BadTransferEncoding => "bad_transfer_encoding",
            Code::BadChunk => "bad_chunk",
            Code::BadTrailer => "bad_trailer",
            Code::MessageTooLarge => "message_too_large",
            Code::LineTooLong => "line_too_long",
            Code::BadCount => "bad_count",
            Code::HeaderName => "header_name",
            Code::HeaderValue => "header_value",
            Code::FramingHeader => "framing_header",
            Code::RequestLine => "request_line",
            Code::NotAnObject => "not_an_object",
        }
    }
}

/// One thing that was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What it was.
    pub code: Code,
    /// Where it was: bytes since the response began; for a message that is too large, bytes since its
    /// body (or the stream of lines) began.
    pub position: u64,
    /// How large the thing is, as far as known. One above the limit where reading stopped there.
    pub size: u64,
}

impl Fault {
    /// A fault from its parts.
    #[must_use]
    pub const fn new(code: Code, position: u64, size: u64) -> Self {
        Fault {
            code,
            position,
            size,
        }
    }
}

/// A length as a position: `usize` fits into `u64` on every target that Rust has.
pub(crate) const fn wide(length: usize) -> u64 {
    length as u64
}
