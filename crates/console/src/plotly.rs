//! Embedded plotly.js, served under the hash of its content.

use std::io::Read;

use bytes::Bytes;
use flate2::read::GzDecoder;

pub(crate) const NAME: &str = "plotly.min.js";

/// Compressed by the build script.
static COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plotly.min.js.gz"));

const HASH: &str = env!("PLOTLY_HASH");

pub(crate) fn address() -> String {
    format!("/console/assets/{HASH}/{NAME}")
}

/// Library with this `hash`, compressed or plain; `None` for another hash.
pub(crate) async fn served(hash: &str, is_compressed: bool) -> Option<Bytes> {
    if hash != HASH {
        return None;
    }
    if is_compressed {
        return Some(Bytes::from_static(COMPRESSED));
    }
    let text = tokio::task::spawn_blocking(text).await.ok()?;
    Some(text.ok()?.into())
}

/// Decompresses the library, in some hundredths of a second.
///
/// # Errors
/// If the embedded library is damaged.
pub(crate) fn text() -> std::io::Result<String> {
    let mut plain = String::new();
    GzDecoder::new(COMPRESSED).read_to_string(&mut plain)?;
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn library_is_the_embedded_one() {
        assert_eq!(address(), format!("/console/assets/{HASH}/plotly.min.js"));
        let plain = served(HASH, false).await.unwrap();
        let text = std::str::from_utf8(&plain).unwrap();
        assert!(text.contains("plotly.js v") && !text.contains("<script"), "{}", &text[..200]);
        assert!(served(HASH, true).await.unwrap().len() < plain.len() / 2);
        assert!(served("0", true).await.is_none());
    }
}
