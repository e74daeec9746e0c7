//! Interruption of a computation before it has a result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::designer::DesignerError;

/// Request to end a computation, shared by its caller and the computation. It never affects a result, only prevents it.
#[derive(Debug, Clone, Default)]
pub struct Interruption(Arc<AtomicBool>);

impl Interruption {
    /// Requests the end of the computation.
    pub fn interrupt(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the end was requested.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// [`DesignerError::Interrupted`] after [`Self::interrupt`].
    pub(crate) fn check(&self) -> Result<(), DesignerError> {
        if self.is_requested() { Err(DesignerError::Interrupted) } else { Ok(()) }
    }
}
