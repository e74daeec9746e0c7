//! Upload body with progress reporting.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::transport::UploadProgress;

/// Chunk size in bytes.
const PART: usize = 64 << 10;

/// Bytes to send, and the progress callback.
pub(super) struct UploadBody {
    left: Bytes,
    length: usize,
    taken: UploadProgress,
}

impl UploadBody {
    pub(super) fn new(bytes: Bytes, taken: UploadProgress) -> Self {
        taken(0);
        Self { length: bytes.len(), left: bytes, taken }
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
        (self.taken)((self.length - self.left.len()) as u64);
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}
