//! Memory statistics of the allocator, and release of free memory to the system.
//!
//! Uses glibc's counters, so an allocation costs nothing extra. With other C libraries, and with glibc before 2.33, the
//! resident set size is used; other C libraries release nothing.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod gnu {
    use std::ffi::{c_char, c_int, c_void};
    use std::sync::LazyLock;

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

    #[expect(unsafe_code, reason = "the C library's allocator has no safe interface")]
    unsafe extern "C" {
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
        pub(super) safe fn malloc_trim(pad: usize) -> c_int;
    }

    /// Statistics of the allocator; `None` before glibc 2.33, which lacks the function. Looked up at run time, so that the
    /// program starts there.
    #[expect(unsafe_code, reason = "the C library's allocator has no safe interface")]
    pub(super) fn mallinfo2() -> Option<Mallinfo2> {
        static FUNCTION: LazyLock<Option<extern "C" fn() -> Mallinfo2>> = LazyLock::new(|| {
            // SAFETY: the name ends with a zero byte, and a null library is the program with all its libraries.
            let address = unsafe { dlsym(std::ptr::null_mut(), c"mallinfo2".as_ptr()) };
            // SAFETY: the symbol has this type in every version of glibc that defines it.
            (!address.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, _>(address) })
        });
        FUNCTION.map(|function| function())
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
        if let Some(statistics) = gnu::mallinfo2() {
            return Some(statistics.uordblks + statistics.hblkhd);
        }
    }
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
            let mapped = || gnu::mallinfo2().unwrap().hblkhd;
            let before = mapped();
            let _block = std::hint::black_box(Vec::<u8>::with_capacity(KEPT_BLOCK / 2));
            assert_eq!(mapped(), before);
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
