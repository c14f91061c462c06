//! The byte vectors of `tests/vectors`: whole, byte by byte, and at every cut. The Python tests read
//! the same files through `_core`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod support;

use ferrule_wire::OwnedFrame;
use ferrule_wire::http::{Kind, Limits};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use support::Subject;

struct Vector {
    name: String,
    bytes: Vec<u8>,
    eof: bool,
    subject: Subject,
    expected: Vec<Value>,
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/vectors")
        .join(name)
}

fn vectors(name: &str, extension: &str, subject: impl Fn(&Value) -> Subject) -> Vec<Vector> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder(name)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|actual| actual != extension) {
            continue;
        }
        let text = std::fs::read_to_string(path.with_extension("json")).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        found.push(Vector {
            name: path.display().to_string(),
            bytes: std::fs::read(&path).unwrap(),
            eof: document["eof"].as_bool().unwrap_or(true),
            subject: subject(&document["options"]),
            expected: document["frames"].as_array().unwrap().clone(),
        });
    }
    assert!(found.len() > 20, "vectors of {name} are missing");
    found
}

fn size(options: &Value, name: &str, default: usize) -> usize {
    options[name]
        .as_u64()
        .map_or(default, |size| usize::try_from(size).unwrap())
}

fn responses() -> Vec<Vector> {
    vectors("http", "http", |options| Subject::Response {
        begin: options["begin"].as_bool().unwrap_or(true),
        connect: options["connect"].as_bool().unwrap_or(false),
        limits: Limits {
            max_head: size(options, "max_head", 65536),
            max_message: size(options, "max_message", 1 << 26),
        },
    })
}

fn events() -> Vec<Vector> {
    vectors("sse", "sse", |options| {
        Subject::Body(Kind::Sse, size(options, "max_message", 1 << 26))
    })
}

fn lines() -> Vec<Vector> {
    vectors("lines", "jsonl", |options| {
        Subject::Lines(size(options, "max_line", 1 << 26))
    })
}

fn data(bytes: &[u8]) -> Value {
    use std::fmt::Write as _;
    if let Ok(text) = std::str::from_utf8(bytes) {
        return json!(text);
    }
    let mut hex = String::new();
    for byte in bytes {
        write!(hex, "{byte:02x}").unwrap();
    }
    json!({ "hex": hex })
}

fn told(frame: &OwnedFrame) -> Value {
    match frame {
        OwnedFrame::Head(head) => {
            let kind = match head.kind() {
                Kind::Other => "other",
                Kind::Json => "json",
                Kind::Sse => "sse",
            };
            json!(["HEAD", {"status": head.status(), "kind": kind, "encoding": head.encoding(), "keep_alive": head.keep_alive()}])
        }
        OwnedFrame::Body(bytes, flags) => json!(["BODY", data(bytes), flags]),
        OwnedFrame::Event(bytes, flags, id, retry, None) => {
            json!(["EVENT", data(bytes), flags, id, retry])
        }
        OwnedFrame::Event(bytes, flags, id, retry, kind) => {
            json!(["EVENT", data(bytes), flags, id, retry, kind])
        }
        OwnedFrame::Comment => json!(["COMMENT"]),
        OwnedFrame::Data(bytes) => json!(["DATA", data(bytes)]),
        OwnedFrame::End(reusable) => json!(["END", reusable]),
        OwnedFrame::Line(bytes, flags) => json!(["LINE", data(bytes), flags]),
        OwnedFrame::LongLine(fault, id) => {
            json!(["FAULT", fault.code.name(), fault.position, fault.size, id])
        }
        OwnedFrame::Fault(fault) => json!(["FAULT", fault.code.name(), fault.position, fault.size]),
    }
}

/// Reports every vector that fails, not the first one only.
fn check<'a>(vectors: &'a [Vector], cut: impl Fn(&'a [u8]) -> Vec<Vec<&'a [u8]>>) {
    let mut failures = Vec::new();
    for vector in vectors {
        for reads in cut(&vector.bytes) {
            let frames = vector.subject.frames(reads.iter().copied(), vector.eof);
            let actual: Vec<Value> = frames.iter().map(told).collect();
            if actual != vector.expected {
                let sizes: Vec<usize> = reads.iter().take(4).map(|read| read.len()).collect();
                failures.push(format!(
                    "{} in reads of {sizes:?}:\n  expected {}\n  got      {}",
                    vector.name,
                    json!(vector.expected),
                    json!(actual)
                ));
                break;
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn whole(bytes: &[u8]) -> Vec<Vec<&[u8]>> {
    vec![vec![bytes]]
}

fn byte_by_byte(bytes: &[u8]) -> Vec<Vec<&[u8]>> {
    vec![bytes.chunks(1).collect()]
}

/// Also with an empty read in between.
fn at_every_cut(bytes: &[u8]) -> Vec<Vec<&[u8]>> {
    let step = bytes.len() / 512 + 1;
    let cuts = (0..=bytes.len()).step_by(step);
    cuts.map(|cut| vec![&bytes[..cut], &[], &bytes[cut..]])
        .collect()
}

fn in_threes(bytes: &[u8]) -> Vec<Vec<&[u8]>> {
    vec![bytes.chunks(3).collect()]
}

macro_rules! three_ways {
    ($($vectors:ident: $whole:ident $bytes:ident $cuts:ident $threes:ident)*) => {$(
        #[test]
        fn $whole() {
            check(&$vectors(), whole);
        }

        #[test]
        fn $bytes() {
            check(&$vectors(), byte_by_byte);
        }

        #[test]
        fn $cuts() {
            check(&$vectors(), at_every_cut);
        }

        #[test]
        fn $threes() {
            check(&$vectors(), in_threes);
        }
    )*};
}

three_ways! {
    responses: responses_whole responses_byte_by_byte responses_at_every_cut responses_in_threes
    events: events_whole events_byte_by_byte events_at_every_cut events_in_threes
    lines: lines_whole lines_byte_by_byte lines_at_every_cut lines_in_threes
}
