//! The machine of this process.

/// The name of this machine.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
