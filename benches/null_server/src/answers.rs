//! What the server says: results are made once and copied from then on.

use std::collections::HashMap;
use std::io::Write;

use crate::scan::Request;

const RESULT_BYTES: usize = 200;
const MANY_TOOLS: usize = 200;

/// How a message is put on the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// One HTTP response with a JSON body.
    Json,
    /// One HTTP response, chunked, one event per chunk, as uvicorn writes them.
    Sse,
    /// A line of stdio.
    Line,
}

/// The era as far as an answer shows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    Handshake,
    Stateless,
}

#[derive(PartialEq, Eq, Hash)]
enum Kind {
    Text(usize),
    Tools(usize),
}

/// The ready-made results.
#[derive(Default)]
pub struct Answers {
    made: HashMap<(Kind, Era), Vec<u8>>,
}

const DISCOVER: &[u8] = br#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":3600000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"null-server","version":"0.0.0"}}}"#;
const INITIALIZE: &[u8] = br#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"null-server","version":"0.0.0"}}"#;

const JSON_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ndate: Sun, 29 Nov 2026 20:23:10 GMT\r\nserver: null\r\ncontent-length: ";
const JSON_HEAD_END: &[u8] = b"\r\ncontent-type: application/json\r\n";
const SESSION: &[u8] = b"mcp-session-id: 0b54d0969816450b9ba026943528a052\r\n";
const SSE_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ndate: Sun, 29 Nov 2026 20:23:12 GMT\r\nserver: null\r\ncontent-type: text/event-stream\r\ncache-control: no-cache, no-transform\r\nconnection: keep-alive\r\nx-accel-buffering: no\r\nTransfer-Encoding: chunked\r\n";
const NOT_FOUND_HEAD: &[u8] = b"HTTP/1.1 404 Not Found\r\nserver: null\r\ncontent-length: ";
const EVENT: &[u8] = b"event: message\r\ndata: ";

impl Answers {
    /// Appends the whole answer to `request`, which has an id, to `out`.
    pub fn write(
        &mut self,
        request: &Request,
        era: Era,
        framing: Framing,
        many: bool,
        out: &mut Vec<u8>,
    ) {
        let id = request.id.unwrap_or(b"null");
        let result: &[u8] = match request.method {
            b"server/discover" => DISCOVER,
            b"initialize" => INITIALIZE,
            b"ping" => b"{}",
            b"tools/list" => self.made(Kind::Tools(if many { MANY_TOOLS } else { 0 }), era),
            b"tools/call" => {
                let size = if request.name == b"size" {
                    request.n
                } else {
                    None
                };
                self.made(Kind::Text(size.unwrap_or(RESULT_BYTES)), era)
            }
            _ => return unknown_method(id, framing, out),
        };
        // Only a stream can carry more than one message; the methods before a call get plain JSON.
        let framing = match framing {
            Framing::Sse if request.method != b"tools/call" => Framing::Json,
            other => other,
        };
        if framing == Framing::Sse {
            out.extend_from_slice(SSE_HEAD);
            if era == Era::Handshake {
                out.extend_from_slice(SESSION);
            }
            out.extend_from_slice(b"\r\n");
        }
        if let (b"progress", Some(token), false) =
            (request.name, request.token, framing == Framing::Json)
        {
            notifications(token, request.n.unwrap_or(0), framing, out);
        }
        let parts = [
            br#"{"jsonrpc":"2.0","id":"#,
            id,
            br#","result":"#,
            result,
            b"}",
        ];
        match framing {
            Framing::Json => {
                let session = if era == Era::Handshake { SESSION } else { b"" };
                json_response(JSON_HEAD, session, &parts, out);
            }
            Framing::Sse => {
                event(&parts, out);
                out.extend_from_slice(b"0\r\n\r\n");
            }
            Framing::Line => line(&parts, out),
        }
    }

    fn made(&mut self, kind: Kind, era: Era) -> &[u8] {
        self.made
            .entry((kind, era))
            .or_insert_with_key(|(kind, era)| {
                let mut text = match kind {
                    Kind::Text(size) => text_result(*size),
                    Kind::Tools(extra) => tools_result(*extra),
                };
                if *era == Era::Stateless {
                    let caching = matches!(kind, Kind::Tools(_));
                    text.pop();
                    text.extend_from_slice(br#","resultType":"complete""#);
                    if caching {
                        text.extend_from_slice(br#","ttlMs":0,"cacheScope":"public""#);
                    }
                    text.push(b'}');
                }
                text
            })
    }
}

fn text_result(size: usize) -> Vec<u8> {
    let mut out = br#"{"content":[{"type":"text","text":""#.to_vec();
    out.extend((0..size).map(|at| b"abcdefghijklmnopqrstuvwxyz012345"[at % 32]));
    out.extend_from_slice(br#""}],"isError":false}"#);
    out
}

fn tools_result(extra: usize) -> Vec<u8> {
    let mut out = br#"{"tools":["#.to_vec();
    for name in ["echo", "size", "progress"] {
        let _ = write!(
            out,
            r#"{{"name":"{name}","description":"A tool of the null server.","inputSchema":{{"type":"object","properties":{{"n":{{"type":"integer"}}}}}}}},"#
        );
    }
    for number in 0..extra {
        let _ = write!(
            out,
            concat!(
                r#"{{"name":"tool_{number}","title":"Tool number {number}","#,
                r#""description":"Looks up the records that match a query in collection {number}, newest first, and returns at most `limit` of them.","#,
                r#""inputSchema":{{"type":"object","properties":{{"query":{{"type":"string","title":"Query","description":"What to look for."}},"#,
                r#""limit":{{"type":"integer","title":"Limit","minimum":1,"maximum":100,"default":10}},"#,
                r#""order":{{"type":"string","enum":["newest","oldest","best"]}}}},"required":["query"],"title":"tool_{number}Arguments"}},"#,
                r#""annotations":{{"readOnlyHint":true,"openWorldHint":false}}}},"#
            ),
            number = number
        );
    }
    out.pop();
    out.extend_from_slice(b"]}");
    out
}

fn notifications(token: &[u8], count: usize, framing: Framing, out: &mut Vec<u8>) {
    let mut tail = Vec::with_capacity(64);
    for step in 1..=count {
        tail.clear();
        let _ = write!(
            tail,
            r#","progress":{step},"total":{count},"message":"step {step}"}}}}"#
        );
        let parts = [
            br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#,
            token,
            &tail,
        ];
        match framing {
            Framing::Line => line(&parts, out),
            _ => event(&parts, out),
        }
    }
}

fn unknown_method(id: &[u8], framing: Framing, out: &mut Vec<u8>) {
    let parts = [
        br#"{"jsonrpc":"2.0","id":"#,
        id,
        br#","error":{"code":-32601,"message":"Method not found"}}"#,
    ];
    match framing {
        Framing::Line => line(&parts, out),
        _ => json_response(NOT_FOUND_HEAD, b"", &parts, out),
    }
}

fn total(parts: &[&[u8]]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

fn extend(parts: &[&[u8]], out: &mut Vec<u8>) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

fn json_response(head: &[u8], session: &[u8], parts: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(head);
    let _ = write!(out, "{}", total(parts));
    out.extend_from_slice(JSON_HEAD_END);
    out.extend_from_slice(session);
    out.extend_from_slice(b"\r\n");
    extend(parts, out);
}

fn event(parts: &[&[u8]], out: &mut Vec<u8>) {
    let _ = write!(out, "{:x}\r\n", EVENT.len() + total(parts) + 4);
    out.extend_from_slice(EVENT);
    extend(parts, out);
    out.extend_from_slice(b"\r\n\r\n\r\n");
}

fn line(parts: &[&[u8]], out: &mut Vec<u8>) {
    extend(parts, out);
    out.push(b'\n');
}
