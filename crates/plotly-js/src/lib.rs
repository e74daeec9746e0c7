//! plotly.js, once in the program and compressed. The crate `plotly` has it uncompressed, with MathJax beside it.

use std::io::Read;

use flate2::read::GzDecoder;

/// The library in the format of gzip, compressed by the build script.
pub static COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plotly.min.js.gz"));

/// Hash of the library, in hexadecimal digits: a name for caches.
pub const HASH: &str = env!("PLOTLY_HASH");

/// Decompresses the library, in some hundredths of a second.
///
/// # Errors
/// If the embedded library is damaged.
pub fn text() -> std::io::Result<String> {
    let mut plain = String::new();
    GzDecoder::new(COMPRESSED).read_to_string(&mut plain)?;
    Ok(plain)
}
