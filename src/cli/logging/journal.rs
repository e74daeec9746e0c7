//! Output to systemd's journal. A number in angle brackets in front of a line is its priority (sd-daemon(3)); the journal
//! itself has time and unit.

use std::io::{self, Stderr, Write};

use rustix::fs::{Stat, fstat};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Variable with device and inode of the stream that systemd connects to the journal.
const STREAM: &str = "JOURNAL_STREAM";

/// Whether standard error leads to the journal.
pub(super) fn is_connected() -> bool {
    let Some(stated) = std::env::var(STREAM).ok() else { return false };
    fstat(io::stderr()).is_ok_and(|Stat { st_dev, st_ino, .. }| stated == format!("{st_dev}:{st_ino}"))
}

/// Text in front of a line of `level`.
pub(super) fn prefix(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

/// Standard error, with a priority in front of each line.
pub(super) struct Journal;

/// Writer of one event. Events arrive in a single write.
pub(super) struct Prefixed {
    prefix: &'static str,
    output: Stderr,
}

impl<'a> MakeWriter<'a> for Journal {
    type Writer = Prefixed;

    fn make_writer(&'a self) -> Prefixed {
        Prefixed { prefix: prefix(Level::INFO), output: io::stderr() }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Prefixed {
        Prefixed { prefix: prefix(*metadata.level()), output: io::stderr() }
    }
}

impl Write for Prefixed {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let mut output = self.output.lock();
        for line in event.split_inclusive(|byte| *byte == b'\n') {
            output.write_all(&[self.prefix.as_bytes(), line].concat())?;
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
