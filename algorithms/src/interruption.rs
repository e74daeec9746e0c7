//! Ending a computation before it has a result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::designer::DesignerError;

/// A request to end a computation, shared by its caller and the computation. Never affects a result: there is none after it.
#[derive(Debug, Clone, Default)]
pub struct Interruption(Arc<AtomicBool>);

impl Interruption {
    /// Requests the end of the computation.
    pub fn interrupt(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the computation is to end.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// [`DesignerError::Interrupted`] if the computation is to end.
    pub(crate) fn check(&self) -> Result<(), DesignerError> {
        if self.is_requested() { Err(DesignerError::Interrupted) } else { Ok(()) }
    }
}
