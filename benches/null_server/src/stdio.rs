//! The stdio side: every complete line of a read is answered, all answers go out in one write.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use crate::answers::{Answers, Era, Framing};
use crate::scan::Request;

pub fn serve(many: bool, spin: Duration) -> io::Result<()> {
    let mut answers = Answers::default();
    let mut stdin = input(spin)?;
    let mut stdout = unbuffered_stdout()?;
    let mut pending = Vec::new();
    let mut out = Vec::new();
    let mut scratch = vec![0; 256 * 1024];
    let mut era = Era::Stateless;
    loop {
        let n = stdin.read(&mut scratch)?;
        if n == 0 {
            return Ok(());
        }
        pending.extend_from_slice(&scratch[..n]);
        let complete = memchr::memrchr(b'\n', &pending).map_or(0, |at| at + 1);
        for text in pending[..complete].split(|byte| *byte == b'\n') {
            let request = Request::scan(text);
            if request.method == b"initialize" {
                era = Era::Handshake;
            }
            if request.id.is_some() && !request.method.is_empty() {
                answers.write(&request, era, Framing::Line, many, &mut out);
            }
        }
        pending.drain(..complete);
        stdout.write_all(&out)?;
        out.clear();
    }
}

/// `std::io::stdout()` writes line by line; answers must leave in one piece.
#[cfg(unix)]
fn unbuffered_stdout() -> io::Result<std::fs::File> {
    use std::os::fd::AsFd;
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

#[cfg(windows)]
fn unbuffered_stdout() -> io::Result<std::fs::File> {
    use std::os::windows::io::AsHandle;
    Ok(io::stdout().as_handle().try_clone_to_owned()?.into())
}

#[cfg(windows)]
fn input(_spin: Duration) -> io::Result<impl Read> {
    Ok(io::stdin().lock())
}

/// A pipe that is looked at for a while before it is waited for.
#[cfg(unix)]
struct Spinning {
    pipe: mio::unix::pipe::Receiver,
    spin: Duration,
}

#[cfg(unix)]
fn input(spin: Duration) -> io::Result<impl Read> {
    use std::os::fd::AsFd;
    let pipe = mio::unix::pipe::Receiver::from(io::stdin().as_fd().try_clone_to_owned()?);
    pipe.set_nonblocking(!spin.is_zero())?;
    Ok(Spinning { pipe, spin })
}

#[cfg(unix)]
impl Read for Spinning {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let start = Instant::now();
        loop {
            match self.pipe.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
            if start.elapsed() > self.spin {
                self.pipe.set_nonblocking(false)?;
                let outcome = self.pipe.read(buffer);
                self.pipe.set_nonblocking(true)?;
                return outcome;
            }
            std::hint::spin_loop();
        }
    }
}
