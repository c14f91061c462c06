//! The null server: an MCP server that answers from ready-made bytes, so that a client bench
//! measures the client. Both eras, HTTP/1.1 on 127.0.0.1 or newline-delimited JSON on stdio.
//!
//! ```text
//! null_server [--spin MICROSECONDS] [--seconds LIFE]     HTTP; prints the port it took
//! null_server --stdio [--many] [--spin MICROSECONDS] [--seconds LIFE]     stdio
//! ```
//!
//! In scope: `server/discover`, `initialize`, `ping`, `tools/list`, `tools/call`, 202 for
//! notifications, 405 for GET, 200 for DELETE, keep-alive, pipelining, answers of any size.
//! Out of scope: validation. It believes what it is sent, because a bench sends what it must.
//!
//! `--spin` is how long to look for the next request before sleeping (0: sleep at once). A server
//! that sleeps between calls adds its own waking up to each sequential call, and the caller pays
//! for the interrupt that wakes it.
//!
//! Its life is bounded: it ends when its stdin closes (the parent died or is done) and in any case
//! after `--seconds`.

mod answers;
mod http;
mod scan;
mod stdio;

use std::io::Read;
use std::process::exit;
use std::thread;
use std::time::Duration;

const USAGE: &str = "usage: null_server [--stdio] [--many] [--spin MICROSECONDS] [--seconds LIFE]";

/// What the command line asked for.
struct Options {
    stdio: bool,
    many: bool,
    spin: Duration,
    life: Duration,
}

fn options() -> Option<Options> {
    let mut options = Options {
        stdio: false,
        many: false,
        spin: Duration::ZERO,
        life: Duration::from_secs(3600),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--stdio" => options.stdio = true,
            "--many" => options.many = true,
            "--spin" => options.spin = Duration::from_micros(words.next()?.parse().ok()?),
            "--seconds" => options.life = Duration::from_secs(words.next()?.parse().ok()?),
            _ => return None,
        }
    }
    Some(options)
}

/// Ends the process when its parent goes away: the pipe on stdin then reports its end.
fn watch_parent() {
    thread::spawn(|| {
        let mut scratch = [0; 256];
        let mut stdin = std::io::stdin();
        while matches!(stdin.read(&mut scratch), Ok(n) if n > 0) {}
        exit(0);
    });
}

fn main() {
    let Some(options) = options() else {
        eprintln!("{USAGE}");
        exit(2);
    };
    let life = options.life;
    thread::spawn(move || {
        thread::sleep(life);
        exit(0);
    });
    let outcome = if options.stdio {
        stdio::serve(options.many, options.spin)
    } else {
        watch_parent();
        http::serve(options.spin)
    };
    if let Err(error) = outcome {
        eprintln!("null_server: {error}");
        exit(1);
    }
}
