//! Draining of request bodies that were refused before their end.
//!
//! Closing a connection with unread input resets it, and a client still writing its body loses the response with the
//! reason. The server therefore reads the rest of the body before it closes the connection, within limits.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Maximum number of bytes to drain. A guess, four times the limit of most bodies.
const MAX_BYTES: usize = 16 << 20;
/// Maximum time for draining. A guess.
const MAX_TIME: Duration = Duration::from_secs(5);

/// Whether the handler dropped the body of the current request before its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnreadBody(Arc<AtomicBool>);

impl UnreadBody {
    pub(crate) fn set(&self, is_unread: bool) {
        self.0.store(is_unread, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Reads remaining input until the client closes the connection or a limit is reached.
pub(crate) struct Drain {
    left: usize,
    end: Pin<Box<Sleep>>,
}

impl Drain {
    pub(crate) fn new() -> Self {
        Self { left: MAX_BYTES, end: Box::pin(sleep(MAX_TIME)) }
    }

    /// Reads from `stream`. An error completes the drain: the client has closed the connection.
    pub(crate) fn poll(
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
