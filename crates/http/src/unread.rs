//! Bodies that were refused before their end, and the close of their connections.
//!
//! A connection that is closed with unread input is reset, and a client that is still writing its body then loses the
//! response, which states what is wrong. Therefore the rest of the body is read before the connection is closed, within limits.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Maximum number of bytes that are read of the rest of a body. A guess, four times the limit of most bodies.
const MAX_BYTES: usize = 16 << 20;
/// Maximum time for it. A guess.
const MAX_TIME: Duration = Duration::from_secs(5);

/// Whether the body of the current request was dropped before its end.
#[derive(Debug, Clone, Default)]
pub(super) struct UnreadBody(Arc<AtomicBool>);

impl UnreadBody {
    pub(super) fn set(&self, is_unread: bool) {
        self.0.store(is_unread, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Reads what a client still sends, until it closes the connection or a limit is reached.
pub(super) struct Drain {
    left: usize,
    end: Pin<Box<Sleep>>,
}

impl Drain {
    pub(super) fn new() -> Self {
        Self { left: MAX_BYTES, end: Box::pin(sleep(MAX_TIME)) }
    }

    /// Reads from `stream`. Errors end the work: the client has closed the connection.
    pub(super) fn poll(
        &mut self,
        mut stream: Pin<&mut (impl AsyncRead + ?Sized)>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let mut bytes = [0; 16 << 10];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            let outcome: io::Result<()> = ready!(stream.as_mut().poll_read(context, &mut buffer));
            let count = buffer.filled().len();
            self.left = self.left.saturating_sub(count);
            if outcome.is_err() || count == 0 || self.left == 0 {
                return Poll::Ready(());
            }
        }
    }
}
