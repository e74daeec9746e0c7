//! Memory statistics of the allocator, and release of free memory to the system.
//!
//! Uses glibc's counters, so an allocation costs nothing extra. With other C libraries, the resident set size is used
//! and nothing is released.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod gnu {
    use std::ffi::c_int;

    /// `struct mallinfo2` of `malloc.h`.
    #[repr(C)]
    pub(super) struct Mallinfo2 {
        arena: usize,
        ordblks: usize,
        smblks: usize,
        hblks: usize,
        /// Bytes in `mmap`ed allocations.
        pub(super) hblkhd: usize,
        usmblks: usize,
        fsmblks: usize,
        /// Bytes in all other allocations.
        pub(super) uordblks: usize,
        fordblks: usize,
        keepcost: usize,
    }

    #[expect(unsafe_code, reason = "the statistics of the C library's allocator have no safe interface")]
    unsafe extern "C" {
        pub(super) safe fn mallinfo2() -> Mallinfo2;
        pub(super) safe fn malloc_trim(pad: usize) -> c_int;
    }
}

/// Block size in bytes; the allocator keeps twice as much free at the end of each arena.
const KEPT_BLOCK: usize = 2 << 20;

/// Keeps a few MiB free at the end of each arena for the next allocations.
///
/// By default, glibc trims an arena above 128 KiB of free memory, which costs a `madvise` and an inter-processor
/// interrupt per store commit (docs/experiments/070). The threshold becomes twice the size of the largest mapped
/// block freed (mallopt(3), `M_MMAP_THRESHOLD`).
pub(crate) fn keep_free_memory() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(KEPT_BLOCK)));
}

/// Allocated bytes; `None` if unknown.
pub(crate) fn held_bytes() -> Option<usize> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let statistics = gnu::mallinfo2();
        Some(statistics.uordblks + statistics.hblkhd)
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    resident_bytes()
}

/// Resident set size in bytes; `None` if unknown.
pub(crate) fn resident_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB"))?;
    Some(kib.trim().parse::<usize>().ok()? << 10)
}

/// Returns free memory of the allocator to the system.
pub(crate) fn release() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    gnu::malloc_trim(0);
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs the test `name` in a separate process, so that other tests' allocations are not counted.
    fn alone(name: &str, check: fn()) {
        const VARIABLE: &str = "TUNESMITH_TEST_IS_ALONE";
        if std::env::var_os(VARIABLE).is_some() {
            return check();
        }
        let name = format!("{}::{name}", module_path!().split_once("::").unwrap().1);
        let mut child = Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", &name]).env(VARIABLE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn blocks_up_to_the_raised_threshold_are_not_mapped() {
        alone("blocks_up_to_the_raised_threshold_are_not_mapped", || {
            keep_free_memory();
            let before = gnu::mallinfo2().hblkhd;
            let _block = std::hint::black_box(Vec::<u8>::with_capacity(KEPT_BLOCK / 2));
            assert_eq!(gnu::mallinfo2().hblkhd, before);
        });
    }

    #[test]
    fn allocations_are_counted_and_returned() {
        alone("allocations_are_counted_and_returned", check_counts);
    }

    fn check_counts() {
        const BYTES: usize = 64 << 20;
        let before = held_bytes().unwrap();
        // Small blocks, which the allocator keeps when they are freed.
        let blocks: Vec<Vec<u8>> = (0..BYTES / 1024).map(|_| vec![1; 1024]).collect();
        let full = held_bytes().unwrap();
        assert!(full - before > BYTES && full - before < 2 * BYTES, "{before} {full}");
        let resident = resident_bytes().unwrap();
        assert!(resident > BYTES, "{resident}");
        drop(blocks);
        assert!(held_bytes().unwrap() < before + BYTES / 4);
        release();
        assert!(resident_bytes().unwrap() + BYTES / 2 < resident);
    }
}
