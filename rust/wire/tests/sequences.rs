//! What no single stream of bytes shows: one response after another, the end of a stream, memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

use ferrule_wire::http::{BodyDecoder, Kind, Limits, ResponseDecoder};
use ferrule_wire::{Code, Frame, Frames, LineDecoder, Payload};

const LIMITS: Limits = Limits {
    max_head: 4096,
    max_message: 1 << 20,
};
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

fn feed<'a>(decoder: &mut ResponseDecoder, bytes: &'a [u8]) -> Vec<Frame<'a>> {
    let mut frames = Frames::new();
    decoder.feed(bytes, &mut frames);
    frames.into_vec()
}

fn eof(decoder: &mut ResponseDecoder) -> Vec<Frame<'static>> {
    let mut frames = Frames::new();
    decoder.eof(&mut frames);
    frames.into_vec()
}

#[test]
fn one_response_after_another() {
    let mut decoder = ResponseDecoder::new(LIMITS);
    for _ in 0..3 {
        assert!(decoder.begin(false));
        let frames = feed(&mut decoder, RESPONSE);
        assert!(matches!(
            frames[..],
            [
                Frame::Head(_),
                Frame::Body(_),
                Frame::End { reusable: true }
            ]
        ));
    }
    assert!(eof(&mut decoder).is_empty());
}

#[test]
fn the_next_response_waits_for_the_end_of_the_last() {
    let mut decoder = ResponseDecoder::new(LIMITS);
    assert!(decoder.begin(false));
    assert!(!decoder.begin(false));
    feed(&mut decoder, &RESPONSE[..39]);
    assert!(!decoder.begin(false));
    feed(&mut decoder, &RESPONSE[39..]);
    assert!(decoder.begin(false));
}

#[test]
fn a_fault_is_the_last_word() {
    let mut decoder = ResponseDecoder::new(LIMITS);
    let frames = feed(&mut decoder, b"x");
    assert!(matches!(frames[..], [Frame::Fault(fault)] if fault.code == Code::Unsolicited));
    assert!(feed(&mut decoder, RESPONSE).is_empty());
    assert!(!decoder.begin(false));
    assert!(eof(&mut decoder).is_empty());
}

#[test]
fn positions_count_from_the_beginning_of_the_response() {
    let mut decoder = ResponseDecoder::new(LIMITS);
    assert!(decoder.begin(false));
    feed(&mut decoder, RESPONSE);
    assert!(decoder.begin(false));
    let frames = feed(&mut decoder, b"HTTP/9");
    assert!(matches!(frames[..], [Frame::Fault(fault)] if fault.position == 5));
}

#[test]
fn an_idle_connection_may_end() {
    let mut decoder = ResponseDecoder::new(LIMITS);
    assert!(eof(&mut decoder).is_empty());
    assert!(!decoder.begin(false));
}

#[test]
fn comments_are_told_once_a_read() {
    let mut decoder = BodyDecoder::new(Kind::Sse, 100);
    let mut told = |bytes: &[u8]| {
        let mut frames = Frames::new();
        decoder.feed(bytes, &mut frames);
        frames.into_vec().len()
    };
    assert_eq!(told(b": a\n\n: b\n\n"), 1);
    assert_eq!(told(b"data: 1\n"), 0);
    assert_eq!(told(b":"), 1);
    assert_eq!(told(b"still the same comment"), 0);
}

#[test]
fn a_message_within_one_read_is_not_copied() {
    let line = b"{\"a\":1}\n{\"b\":2}\r\n";
    let mut frames = Frames::new();
    LineDecoder::new(100).feed(line, &mut frames);
    let slices: Vec<_> = frames
        .into_vec()
        .into_iter()
        .map(|frame| match frame {
            Frame::Line(line) => line.as_slice().map(<[u8]>::as_ptr),
            _ => None,
        })
        .collect();
    assert_eq!(slices, [Some(line.as_ptr()), Some(line[8..].as_ptr())]);
}

#[test]
fn a_large_message_comes_out_as_it_went_in() {
    let mut expected = vec![b'"'];
    expected.extend((0..1_000_000_u32).map(|at| b'a' + u8::try_from(at % 23).unwrap()));
    for read in [1, 7, 511, 512, 513, 4096, 65_536, 999_999] {
        let mut decoder = LineDecoder::new(1 << 20);
        for bytes in expected.chunks(read) {
            let mut frames = Frames::new();
            decoder.feed(bytes, &mut frames);
            assert!(frames.into_vec().is_empty());
        }
        let mut frames = Frames::new();
        decoder.feed(b"\n", &mut frames);
        let Some(Frame::Line(line)) = frames.into_vec().pop() else {
            panic!("no line");
        };
        assert_eq!(line.len(), expected.len());
        assert!(line.into_vec() == expected, "reads of {read}");
    }
}

#[test]
fn an_empty_payload_is_empty() {
    let payload = Payload::from(&b""[..]);
    assert!(payload.is_empty());
    assert_eq!(payload.into_vec(), b"");
}

#[test]
fn a_header_is_found_whatever_its_case() {
    let mut decoder = ResponseDecoder::new(LIMITS);
    assert!(decoder.begin(false));
    let head = b"HTTP/1.1 401 No\r\nWWW-Authenticate: a\r\nset-cookie: b\r\nSet-Cookie: c\r\n\r\n";
    let frames = feed(&mut decoder, head);
    let Some(Frame::Head(head)) = frames.first() else {
        panic!("no head");
    };
    assert_eq!(head.get(b"www-authenticate"), Some(&b"a"[..]));
    assert_eq!(head.get(b"none"), None);
    assert_eq!(
        head.get_all(b"SET-COOKIE").collect::<Vec<_>>(),
        [b"b", b"c"]
    );
    assert_eq!(head.iter().count(), 3);
}

#[test]
fn codes_have_numbers_and_names_of_their_own() {
    for (index, code) in Code::ALL.into_iter().enumerate() {
        assert_eq!(usize::from(code.number()), index + 1);
        assert!(
            Code::ALL
                .iter()
                .filter(|other| other.name() == code.name())
                .count()
                == 1
        );
    }
}
