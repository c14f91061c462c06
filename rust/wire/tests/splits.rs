//! Any split of the same bytes gives the same frames: for streams made of pieces that matter, cut anywhere.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod support;

use ferrule_wire::http::{Kind, Limits};
use proptest::prelude::*;
use support::Subject;

fn stream(pieces: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => prop::sample::select(pieces).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

const SSE: &[&str] = &[
    "data",
    "data:",
    "data: ",
    "event: x",
    "id: 1",
    "id:",
    "retry: 5",
    ":",
    " ",
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    "\u{feff}",
    "abc",
    "0",
    "unknown: ",
    "longer than names",
];

const LINES: &[&str] = &[
    "{",
    "}",
    "\"id\":1",
    ",",
    "\n",
    "\r\n",
    "\r",
    "\u{feff}",
    "\"method\":\"x\"",
    "\"result\":",
    "[]",
    "\"abc",
    "\\\"",
    "0123456789",
];

const HTTP: &[&str] = &[
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 200 OK\r\n",
    "HTTP/1.1 100 C\r\n\r\n",
    "HTTP/1.1 204 N\r\n",
    "Content-Length: 3\r\n",
    "Content-Length: 0\r\n",
    "Transfer-Encoding: chunked\r\n",
    "\r\n",
    "Content-Type: application/json\r\n",
    "Content-Type: text/event-stream\r\n",
    "Content-Encoding: gzip\r\n",
    "Connection: close\r\n",
    "abc",
    "3\r\n",
    "0\r\n",
    "\n",
    "\r",
    "data: 1\n\n",
    "retry: 3\n",
    "A: b\r\n",
    " ",
    ";",
    "\0",
];

/// Cuts at the given places, in any order, repeated or beyond the end.
fn reads<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.sort_unstable();
    let mut reads = Vec::new();
    let mut rest = bytes;
    let mut done = 0;
    for cut in cuts {
        let (read, after) = rest.split_at(cut - done);
        reads.push(read);
        rest = after;
        done = cut;
    }
    reads.push(rest);
    reads
}

fn check(subject: Subject, bytes: &[u8], cuts: &[usize], eof: bool) {
    let whole = subject.frames([bytes], eof);
    assert_eq!(whole, subject.frames(bytes.chunks(1), eof), "byte by byte");
    assert_eq!(
        whole,
        subject.frames(reads(bytes, cuts), eof),
        "cut at {cuts:?}"
    );
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0_usize..400, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn of_an_event_stream(bytes in stream(SSE), cuts in cuts(), limit in 1_usize..40, eof: bool) {
        check(Subject::Body(Kind::Sse, limit), &bytes, &cuts, eof);
        check(Subject::Body(Kind::Sse, 1 << 20), &bytes, &cuts, eof);
    }

    #[test]
    fn of_lines(bytes in stream(LINES), cuts in cuts(), limit in 1_usize..60, eof: bool) {
        check(Subject::Lines(limit), &bytes, &cuts, eof);
    }

    #[test]
    fn of_a_body(bytes in stream(LINES), cuts in cuts(), limit in 1_usize..60, eof: bool) {
        check(Subject::Body(Kind::Json, limit), &bytes, &cuts, eof);
    }

    #[test]
    fn of_a_response(
        bytes in stream(HTTP), cuts in cuts(), max_head in 8_usize..200, max_message in 1_usize..40,
        eof: bool, connect: bool,
    ) {
        let limits = Limits { max_head, max_message };
        check(Subject::Response { begin: true, connect, limits }, &bytes, &cuts, eof);
        let beginning = b"HTTP/1.1 200 OK\r\n".iter().chain(&bytes);
        let bytes: Vec<u8> = beginning.copied().collect();
        check(Subject::Response { begin: true, connect, limits }, &bytes, &cuts, eof);
    }
}
