//! The body of an upload, which counts the bytes that were taken of it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use indicatif::ProgressBar;

/// Number of bytes that are taken at once.
const PART: usize = 64 << 10;

/// Bytes to send, and the display of how many were taken.
pub(super) struct UploadBody {
    left: Bytes,
    taken: ProgressBar,
}

impl UploadBody {
    /// Creates the body and starts the display from zero.
    pub(super) fn new(bytes: Bytes, taken: ProgressBar) -> Self {
        taken.set_position(0);
        Self { left: bytes, taken }
    }
}

impl Body for UploadBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.left.len().min(PART);
        let part = self.left.split_to(length);
        self.taken.inc(length as u64);
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}
