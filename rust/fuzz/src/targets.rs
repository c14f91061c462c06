//! The targets: which decoder, what it is fed, and which sentences must be true of it.

use crate::dictionary::{HTTP, JSON, REQUEST, SSE};
use crate::input::Random;
use crate::support::Subject;
use crate::{memory, reference, requests};
use ferrule_wire::http::{BodyDecoder, Head, Kind, Limits, ResponseDecoder};
use ferrule_wire::jsonrpc::response_id;
use ferrule_wire::{Frames, LineDecoder, OwnedFrame, scan};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;

/// A decoder under test.
pub struct Target {
    pub name: &'static str,
    /// The folder of `tests/vectors` whose files are seeds.
    pub vectors: Option<&'static str>,
    pub dictionary: &'static [&'static [u8]],
    /// The shape of what came out, or the sentence that is not true.
    pub check: fn(&[u8]) -> Result<u64, String>,
}

pub const TARGETS: [Target; 6] = [
    Target {
        name: "response",
        vectors: Some("http"),
        dictionary: HTTP,
        check: response,
    },
    Target {
        name: "events",
        vectors: Some("sse"),
        dictionary: SSE,
        check: events,
    },
    Target {
        name: "body",
        vectors: Some("lines"),
        dictionary: JSON,
        check: body,
    },
    Target {
        name: "lines",
        vectors: Some("lines"),
        dictionary: JSON,
        check: lines,
    },
    Target {
        name: "scan",
        vectors: Some("lines"),
        dictionary: JSON,
        check: scan,
    },
    Target {
        name: "request",
        vectors: None,
        dictionary: REQUEST,
        check: requests::check,
    },
];

pub fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Kinds of frames, codes, statuses and flags, but no content: inputs of the same shape took the same way.
fn shape(frames: &[OwnedFrame]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for frame in frames.iter().take(4) {
        discriminant(frame).hash(&mut hasher);
        match frame {
            OwnedFrame::Head(head) => {
                let has = |name: &[u8]| head.get(name).is_some();
                let lengths = (has(b"content-length"), has(b"transfer-encoding"));
                let coded = (lengths, head.encoding().is_some());
                (head.status() / 100, head.kind() as u8, coded).hash(&mut hasher);
            }
            OwnedFrame::Event(data, flags, id, retry, kind) => {
                let fields = (id.is_some(), retry.is_some(), kind.is_some());
                (data.len().min(3), flags, fields).hash(&mut hasher);
            }
            OwnedFrame::Body(data, flags) | OwnedFrame::Line(data, flags) => {
                (data.len().min(3), flags).hash(&mut hasher);
            }
            OwnedFrame::End(reusable) => reusable.hash(&mut hasher),
            OwnedFrame::LongLine(_, id) => id.is_some().hash(&mut hasher),
            OwnedFrame::Fault(fault) => (fault.code.number(), fault.size > 0).hash(&mut hasher),
            OwnedFrame::Comment | OwnedFrame::Data(_) => {}
        }
    }
    hasher.finish()
}

/// Settings and cuts come from the input itself, so that a file alone reproduces a finding.
pub fn random_for(input: &[u8]) -> Random {
    Random::new(hash(&input))
}

pub fn must_be(truth: bool, sentence: &str) -> Result<(), String> {
    if truth {
        Ok(())
    } else {
        Err(sentence.to_owned())
    }
}

/// Any split gives the same frames.
fn frames_of(
    subject: Subject,
    input: &[u8],
    random: &mut Random,
) -> Result<Vec<OwnedFrame>, String> {
    let whole = subject.frames([input], true);
    let mut cuts = [0, 0, input.len()].map(|cut: usize| cut + random.below(input.len() + 1 - cut));
    cuts.sort_unstable();
    let [first, second, _] = cuts;
    let reads = [&input[..first], &input[first..second], &input[second..]];
    let cut = subject.frames(reads, true);
    if cut != whole {
        return Err(format!(
            "any split gives the same frames: whole {whole:?}, cut at {first} and {second} {cut:?} ({subject:?})"
        ));
    }
    if random.below(4) == 0 {
        let single = subject.frames(input.chunks(1), true);
        if single != whole {
            return Err(format!(
                "any split gives the same frames: whole {whole:?}, byte by byte {single:?} ({subject:?})"
            ));
        }
    }
    Ok(whole)
}

/// What is kept between reads is bounded, however often the same bytes come.
fn flood(input: &[u8], limit: usize, mut feed: impl FnMut(&[u8])) -> Result<(), String> {
    // The limit twice (what is kept, what grows into it), small fields, a segment's slack.
    let bound = isize::try_from(2 * limit + 16 * 1024).unwrap_or(isize::MAX);
    let before = memory::held();
    for _ in 0..200 {
        feed(input);
        must_be(
            memory::held() - before <= bound,
            "what is kept between reads is bounded by the limits",
        )?;
    }
    Ok(())
}

fn sizes_hold(frames: &[OwnedFrame], limit: usize) -> Result<(), String> {
    let is_within = |frame: &OwnedFrame| match frame {
        OwnedFrame::Body(data, _) | OwnedFrame::Event(data, ..) | OwnedFrame::Line(data, _) => {
            data.len() <= limit
        }
        _ => true,
    };
    must_be(
        frames.iter().all(is_within),
        "no message is larger than the limit",
    )
}

fn response(input: &[u8]) -> Result<u64, String> {
    let mut random = random_for(input);
    let small = random.below(4) == 0;
    let limits = Limits {
        max_head: if small { 16 + random.below(100) } else { 4096 },
        max_message: if small { 1 + random.below(20) } else { 4096 },
    };
    let subject = Subject::Response {
        begin: true,
        connect: random.below(16) == 0,
        limits,
    };
    let frames = frames_of(subject, input, &mut random)?;
    sizes_hold(&frames, limits.max_message)?;
    let heads = frames
        .iter()
        .filter(|frame| matches!(frame, OwnedFrame::Head(_)));
    must_be(heads.count() <= 1, "one response has at most one head")?;
    let ends = frames
        .iter()
        .filter(|frame| matches!(frame, OwnedFrame::End(_)));
    let faults = frames
        .iter()
        .filter(|frame| matches!(frame, OwnedFrame::Fault(_)));
    must_be(
        ends.count() + faults.count() >= 1,
        "at the end of a stream a response has ended or failed",
    )?;
    if let Some(OwnedFrame::Head(head)) = frames.first() {
        head_comes_back(head)?;
        body_is_what_chunks_say(head, input, &frames)?;
    }
    if random.below(200) == 0 {
        let mut decoder = ResponseDecoder::new(limits);
        let _ = decoder.begin(false);
        flood(input, limits.max_head + limits.max_message, |read| {
            decoder.feed(read, &mut Frames::new());
        })?;
    }
    Ok(shape(&frames))
}

/// An accepted head, written again in its plainest form, is read as the same head.
fn head_comes_back(head: &Head) -> Result<(), String> {
    let mut plain = format!("HTTP/1.1 {} \r\n", head.status()).into_bytes();
    for (name, value) in head.iter() {
        must_be(
            !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)),
            "no accepted value holds CR, LF or NUL",
        )?;
        for part in [name, b": ", value, b"\r\n"] {
            plain.extend_from_slice(part);
        }
    }
    plain.extend_from_slice(b"\r\n");
    let subject = Subject::Response {
        begin: true,
        connect: false,
        limits: Limits {
            max_head: 65536,
            max_message: 65536,
        },
    };
    let frames = subject.frames([plain.as_slice()], false);
    let again = frames.iter().find_map(|frame| match frame {
        OwnedFrame::Head(head) => Some(head),
        _ => None,
    });
    let is_same = again.is_some_and(|again| {
        let kinds = again.status() == head.status() && again.kind() == head.kind();
        kinds && again.encoding() == head.encoding() && again.iter().eq(head.iter())
    });
    // A head whose lengths conflict is accepted where there is no body (204, 304, CONNECT) and only there.
    let has_body = !matches!(head.status(), 204 | 304);
    let is_tunnel = frames
        .iter()
        .any(|frame| matches!(frame, OwnedFrame::Fault(_)))
        && again.is_none();
    must_be(
        is_same || !has_body || is_tunnel,
        "an accepted head comes back from its plainest form",
    )
}

/// A chunked body of one plain form is what its chunks say.
fn body_is_what_chunks_say(head: &Head, input: &[u8], frames: &[OwnedFrame]) -> Result<(), String> {
    let is_plain = head.get(b"transfer-encoding").is_some() && head.encoding().is_none();
    let at = input.windows(4).position(|window| window == b"\r\n\r\n");
    let (Some(at), true) = (at, is_plain && head.kind() != Kind::Sse) else {
        return Ok(());
    };
    let Some(expected) = reference::plain_chunks(&input[at + 4..]) else {
        return Ok(());
    };
    let without_mark = expected.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&expected);
    let is_right = match frames {
        [_, OwnedFrame::Body(body, _), OwnedFrame::End(_)] => body == without_mark,
        [_, OwnedFrame::End(_)] => without_mark.is_empty(),
        // A limit, an interim head or a status without body: the stream does not begin where it seems.
        _ => return Ok(()),
    };
    let is_simple = head.status() != 204 && head.status() != 304 && frames.len() == 3;
    must_be(
        is_right || !is_simple,
        "a chunked body is what its chunks say",
    )
}

fn events(input: &[u8]) -> Result<u64, String> {
    let mut random = random_for(input);
    let small = random.below(4) == 0;
    let limit = if small { 1 + random.below(20) } else { 4096 };
    let frames = frames_of(Subject::Body(Kind::Sse, limit), input, &mut random)?;
    sizes_hold(&frames, limit)?;
    if let Some(events) = reference::as_plain_events(&frames) {
        must_be(
            events == reference::events(input),
            "events are those of the plain decoder",
        )?;
    } else {
        must_be(small, "only a limit makes an event stream fail")?;
    }
    if random.below(200) == 0 {
        let mut decoder = BodyDecoder::new(Kind::Sse, limit);
        flood(input, limit, |read| decoder.feed(read, &mut Frames::new()))?;
    }
    Ok(shape(&frames))
}

fn body(input: &[u8]) -> Result<u64, String> {
    let mut random = random_for(input);
    let limit = 1 + random.below(512);
    let kind = [Kind::Json, Kind::Other][random.below(2)];
    let frames = frames_of(Subject::Body(kind, limit), input, &mut random)?;
    let expected = input.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(input);
    let is_right = match frames.as_slice() {
        [] => expected.is_empty(),
        [OwnedFrame::Body(body, flags)] => {
            body == expected && *flags == scan::flags(body) && input.len() <= limit
        }
        [OwnedFrame::Fault(_)] => input.len() > limit,
        _ => false,
    };
    must_be(
        is_right,
        "a body is all of its bytes without the mark, or too large",
    )?;
    Ok(shape(&frames))
}

fn lines(input: &[u8]) -> Result<u64, String> {
    let mut random = random_for(input);
    let small = random.below(2) == 0;
    let limit = if small { 1 + random.below(40) } else { 4096 };
    let frames = frames_of(Subject::Lines(limit), input, &mut random)?;
    let mut found = Vec::new();
    for frame in &frames {
        match frame {
            OwnedFrame::Line(line, flags) => {
                must_be(
                    *flags == scan::flags(line),
                    "flags are those of the line alone",
                )?;
                found.push(line.clone());
            }
            OwnedFrame::LongLine(..) | OwnedFrame::Fault(_) => {}
            _ => return Err("a line decoder gives lines".to_owned()),
        }
    }
    must_be(
        found == reference::lines(input, limit),
        "lines are those of the plain decoder",
    )?;
    let split = input.split(|byte| *byte == b'\n');
    let long = split.filter(|line| line.len() > limit).count();
    let told = frames
        .iter()
        .filter(|frame| matches!(frame, OwnedFrame::LongLine(..)));
    must_be(
        told.count() == long,
        "every line over the limit is told once",
    )?;
    if random.below(200) == 0 {
        let mut decoder = LineDecoder::new(limit);
        flood(input, limit, |read| decoder.feed(read, &mut Frames::new()))?;
    }
    Ok(shape(&frames))
}

fn scan(input: &[u8]) -> Result<u64, String> {
    let flags = scan::flags(input);
    must_be(
        flags & scan::SLOW != 0 || !reference::must_be_slow(input),
        "a message that a fast parser would change is flagged",
    )?;
    must_be(
        flags != scan::DEEP,
        "depth is only told beside the other flag",
    )?;
    let id = response_id(input);
    must_be(
        id.is_none() || input.windows(4).any(|window| window == b"\"id\""),
        "an id is only found where one is written",
    )?;
    let has = |needle: &[u8]| input.windows(needle.len()).any(|window| window == needle);
    Ok(hash(&(
        flags,
        id.is_some(),
        has(b"\\u"),
        has(b"\""),
        has(b"{"),
    )))
}
