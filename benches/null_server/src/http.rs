//! The HTTP side: one thread, one poll, one read and one write per request.
//!
//! The path chooses the framing: `/sse...` answers `tools/call` with an event stream, anything else
//! with JSON; a path that holds `many` lists 200 tools; under one that holds `apart` the end of an
//! answer's last chunk leaves in a write of its own, as uvicorn does it. A request that carries a
//! session id, and `initialize`, belong to the handshake era.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use crate::answers::{Answers, Era, Framing};
use crate::scan::Request;

const LISTENER: Token = Token(usize::MAX);
const READ_SIZE: usize = 64 * 1024;

const ACCEPTED: &[u8] = b"HTTP/1.1 202 Accepted\r\nserver: null\r\ncontent-length: 0\r\n\r\n";
const DELETED: &[u8] = b"HTTP/1.1 200 OK\r\nserver: null\r\ncontent-length: 0\r\n\r\n";
const NOT_ALLOWED: &[u8] = b"HTTP/1.1 405 Method Not Allowed\r\nserver: null\r\nallow: POST, DELETE\r\ncontent-length: 0\r\n\r\n";

/// The length of the last chunk, which is empty.
const CHUNKS_END: usize = 5;

/// What a read is answered with.
#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    /// Whether the last chunk leaves in a write of its own.
    end_apart: bool,
}

struct Connection {
    stream: TcpStream,
    /// The beginning of a request whose rest has not come yet.
    pending: Vec<u8>,
    /// What the socket did not take yet.
    unsent: Vec<u8>,
}

/// Serves until the process ends.
pub fn serve(spin: Duration) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(1024);
    let mut listener = TcpListener::bind("127.0.0.1:0".parse().map_err(io::Error::other)?)?;
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    println!("{}", listener.local_addr()?.port());

    let mut answers = Answers::default();
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut scratch = vec![0; READ_SIZE];
    let mut out = Output::default();
    let mut last = Instant::now();
    loop {
        let patience = if last.elapsed() < spin {
            Some(Duration::ZERO)
        } else {
            None
        };
        match poll.poll(&mut events, patience) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            outcome => outcome?,
        }
        if events.is_empty() {
            std::hint::spin_loop();
            continue;
        }
        for event in &events {
            if event.token() == LISTENER {
                accept_all(&listener, &poll, &mut connections)?;
                continue;
            }
            let slot = &mut connections[event.token().0];
            let Some(connection) = slot else { continue };
            let alive = connection.flush_unsent()
                && (!event.is_readable()
                    || connection.serve_readable(&mut answers, &mut scratch, &mut out));
            if !alive {
                *slot = None;
            }
        }
        if !spin.is_zero() {
            last = Instant::now();
        }
    }
}

fn accept_all(
    listener: &TcpListener,
    poll: &Poll,
    connections: &mut Vec<Option<Connection>>,
) -> io::Result<()> {
    loop {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(_) => continue,
        };
        let _ = stream.set_nodelay(true);
        let free = connections
            .iter()
            .position(Option::is_none)
            .unwrap_or(connections.len());
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry()
            .register(&mut stream, Token(free), interest)?;
        let connection = Connection {
            stream,
            pending: Vec::new(),
            unsent: Vec::new(),
        };
        if free == connections.len() {
            connections.push(Some(connection));
        } else {
            connections[free] = Some(connection);
        }
    }
}

impl Connection {
    /// Reads what is there and answers every complete request. False: the peer is gone.
    fn serve_readable(
        &mut self,
        answers: &mut Answers,
        scratch: &mut [u8],
        out: &mut Output,
    ) -> bool {
        loop {
            let n = match self.stream.read(scratch) {
                Ok(0) => return false,
                Ok(n) => n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return false,
            };
            out.bytes.clear();
            out.end_apart = false;
            if self.pending.is_empty() {
                let used = answer_all(&scratch[..n], answers, out);
                self.pending.extend_from_slice(&scratch[used..n]);
            } else {
                self.pending.extend_from_slice(&scratch[..n]);
                let used = answer_all(&self.pending, answers, out);
                self.pending.drain(..used);
            }
            let cut = out.bytes.len() - if out.end_apart { CHUNKS_END } else { 0 };
            if !(self.send(&out.bytes[..cut]) && self.send(&out.bytes[cut..])) {
                return false;
            }
            // A short read has emptied the socket (epoll(7)); asking again would cost a call.
            if n < scratch.len() {
                return true;
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) -> bool {
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(bytes);
            return true;
        }
        match write_some(&mut self.stream, bytes) {
            Ok(sent) => {
                self.unsent.extend_from_slice(&bytes[sent..]);
                true
            }
            Err(_) => false,
        }
    }

    fn flush_unsent(&mut self) -> bool {
        if self.unsent.is_empty() {
            return true;
        }
        match write_some(&mut self.stream, &self.unsent) {
            Ok(sent) => {
                self.unsent.drain(..sent);
                true
            }
            Err(_) => false,
        }
    }
}

/// Writes until the socket is full; returns how much it took.
fn write_some(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(n) => sent += n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// Answers the complete requests at the beginning of `text`; returns how many bytes they were.
fn answer_all(text: &[u8], answers: &mut Answers, out: &mut Output) -> usize {
    let mut used = 0;
    while let Some(length) = answer_one(&text[used..], answers, out) {
        used += length;
    }
    used
}

fn answer_one(text: &[u8], answers: &mut Answers, out: &mut Output) -> Option<usize> {
    let head_end = memchr::memmem::find(text, b"\r\n\r\n")? + 4;
    let head = Head::parse(&text[..head_end]);
    let end = head_end + head.length;
    let body = text.get(head_end..end)?;
    match head.verb {
        b"POST" => {}
        b"DELETE" => {
            out.bytes.extend_from_slice(DELETED);
            return Some(end);
        }
        _ => {
            out.bytes.extend_from_slice(NOT_ALLOWED);
            return Some(end);
        }
    }
    let request = Request::scan(body);
    if request.id.is_none() {
        out.bytes.extend_from_slice(ACCEPTED);
        return Some(end);
    }
    let era = if head.session || request.method == b"initialize" {
        Era::Handshake
    } else {
        Era::Stateless
    };
    let framing = if head.path.starts_with(b"/sse") {
        Framing::Sse
    } else {
        Framing::Json
    };
    out.end_apart = framing == Framing::Sse
        && request.method == b"tools/call"
        && memchr::memmem::find(head.path, b"apart").is_some();
    let many = memchr::memmem::find(head.path, b"many").is_some();
    answers.write(&request, era, framing, many, &mut out.bytes);
    Some(end)
}

/// What a request head says that matters here.
#[derive(Default)]
struct Head<'a> {
    verb: &'a [u8],
    path: &'a [u8],
    length: usize,
    session: bool,
}

impl<'a> Head<'a> {
    fn parse(text: &'a [u8]) -> Self {
        let mut lines = Lines { rest: text };
        let mut words = lines.next().unwrap_or(b"").split(|byte| *byte == b' ');
        let mut head = Self {
            verb: words.next().unwrap_or(b""),
            path: words.next().unwrap_or(b""),
            ..Self::default()
        };
        for line in lines {
            if has_name(line, b"content-length:") {
                let digits = line[15..].trim_ascii();
                head.length = std::str::from_utf8(digits)
                    .ok()
                    .and_then(|t| t.parse().ok())
                    .unwrap_or(0);
            } else if has_name(line, b"mcp-session-id:") {
                head.session = true;
            }
        }
        head
    }
}

fn has_name(line: &[u8], name: &[u8]) -> bool {
    line.get(..name.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(name))
}

/// The lines of a head without their CR LF.
struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = memchr::memchr(b'\n', self.rest)?;
        let line = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}
