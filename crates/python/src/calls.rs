//! Calls from Python: without the GIL, ended by signals, and never during a fork.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use tokio::runtime::Builder;

use crate::error::{of_panic, raised};
use tunesmith_domain::{Code, Refusal};

/// Interval at which a call looks for signals.
const SIGNALS: Duration = Duration::from_millis(50);

/// Interval at which a fork and the calls that it delays look at each other.
const PAUSE: Duration = Duration::from_millis(1);

/// Number of running calls. Atomic, since the child of a fork could not unlock a lock of another thread.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
static IS_FORKING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Number of calls of this thread: a signal handler may run within one.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// Runs `work` to its end, or until a signal handler raises an exception.
pub(crate) fn run<T: Send>(py: Python<'_>, work: impl Future<Output = Result<T, Refusal>> + Send) -> PyResult<T> {
    py.detach(|| {
        let _running = Running::begin();
        let run = || {
            // Without an I/O driver, which the child of a fork would share. Dropping the runtime ends its threads.
            let runtime = Builder::new_current_thread().enable_time().build();
            let runtime = runtime
                .map_err(|error| raised(Refusal::new(Code::Internal, format!("no runtime can be started: {error}"))))?;
            runtime.block_on(interruptible(work))
        };
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(raised(of_panic(&*panic))))
    })
}

async fn interruptible<T>(work: impl Future<Output = Result<T, Refusal>>) -> PyResult<T> {
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(SIGNALS, &mut work).await {
            Ok(outcome) => return outcome.map_err(raised),
            Err(_) => Python::attach(|py| py.check_signals())?,
        }
    }
}

/// A running call, which a fork waits for.
struct Running;

impl Running {
    fn begin() -> Self {
        loop {
            RUNNING.fetch_add(1, Ordering::SeqCst);
            if !IS_FORKING.load(Ordering::SeqCst) {
                OWN.set(OWN.get() + 1);
                return Self;
            }
            RUNNING.fetch_sub(1, Ordering::SeqCst);
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        OWN.set(OWN.get() - 1);
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Delays new calls and waits until no other thread runs one.
#[pyfunction]
pub(crate) fn before_fork(py: Python<'_>) {
    py.detach(|| {
        IS_FORKING.store(true, Ordering::SeqCst);
        while RUNNING.load(Ordering::SeqCst) > OWN.get() {
            std::thread::sleep(PAUSE);
        }
    });
}

/// Lets calls continue, in the parent and in the child.
#[pyfunction]
pub(crate) fn after_fork() {
    IS_FORKING.store(false, Ordering::SeqCst);
}
