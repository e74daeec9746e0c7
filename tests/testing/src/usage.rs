//! Memory and processor time of a process.

use std::time::Duration;

/// The processor time of `process` and its ended children.
pub fn processor_time(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[11..15].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    // The unit of these fields is 1/100 s (USER_HZ) on every architecture.
    Duration::from_millis(ticks * 10)
}

/// A field of the status of `process` in KiB, such as `VmRSS`.
pub fn status_kib(process: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(":")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse().unwrap()
}
