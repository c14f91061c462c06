//! Runs a decoder over a stream that is cut in some way. Shared by the tests and the fuzz targets.

use ferrule_wire::http::{BodyDecoder, Kind, Limits, ResponseDecoder};
use ferrule_wire::{Frames, LineDecoder, OwnedFrame};

/// A decoder and its settings.
#[derive(Clone, Copy, Debug)]
pub enum Subject {
    /// One response, unless `begin` is false.
    Response {
        /// Expect a response.
        begin: bool,
        /// It answers CONNECT.
        connect: bool,
        /// The bounds.
        limits: Limits,
    },
    /// A body alone.
    Body(Kind, usize),
    /// Lines.
    Lines(usize),
}

enum Running {
    Response(ResponseDecoder),
    Body(BodyDecoder),
    Lines(LineDecoder),
}

impl Subject {
    fn start(self) -> Running {
        match self {
            Subject::Response {
                begin,
                connect,
                limits,
            } => {
                let mut decoder = ResponseDecoder::new(limits);
                assert!(!begin || decoder.begin(connect));
                Running::Response(decoder)
            }
            Subject::Body(kind, limit) => Running::Body(BodyDecoder::new(kind, limit)),
            Subject::Lines(limit) => Running::Lines(LineDecoder::new(limit)),
        }
    }

    /// The frames of a stream that arrives in these reads, told apart as they must not depend on
    /// the cuts: without comments, neighbouring raw pieces joined.
    pub fn frames<'a>(
        self,
        reads: impl IntoIterator<Item = &'a [u8]>,
        eof: bool,
    ) -> Vec<OwnedFrame> {
        let mut running = self.start();
        let mut all = Vec::new();
        for read in reads {
            let mut frames = Frames::new();
            running.feed(read, &mut frames);
            collect(&mut all, frames);
        }
        if eof {
            let mut frames = Frames::new();
            running.eof(&mut frames);
            collect(&mut all, frames);
        }
        all
    }
}

impl Running {
    fn feed<'a>(&mut self, read: &'a [u8], frames: &mut Frames<'a>) {
        match self {
            Running::Response(decoder) => decoder.feed(read, frames),
            Running::Body(decoder) => decoder.feed(read, frames),
            Running::Lines(decoder) => decoder.feed(read, frames),
        }
    }

    fn eof(&mut self, frames: &mut Frames<'_>) {
        match self {
            Running::Response(decoder) => decoder.eof(frames),
            Running::Body(decoder) => decoder.eof(frames),
            Running::Lines(decoder) => decoder.eof(frames),
        }
    }
}

fn collect(all: &mut Vec<OwnedFrame>, frames: Frames<'_>) {
    let mut comments = 0;
    for frame in frames.into_vec() {
        match (all.last_mut(), OwnedFrame::from(frame)) {
            (_, OwnedFrame::Comment) => comments += 1,
            (Some(OwnedFrame::Data(before)), OwnedFrame::Data(more)) => before.extend(more),
            (_, frame) => all.push(frame),
        }
    }
    assert!(comments <= 1, "at most one comment frame a read");
}
