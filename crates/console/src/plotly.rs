//! plotly.js, as the crate `plotly` embeds it, served compressed under the hash of its content.

use std::io::{Read, Write};
use std::sync::OnceLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// The name of the file.
pub(crate) const NAME: &str = "plotly.min.js";

/// The library, compressed: it is not kept in plain form a second time.
struct Library {
    hash: String,
    compressed: Bytes,
}

/// The library. The first call takes some tenths of a second.
fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let scripts = plotly::Plot::offline_js_sources();
        let source = source(&scripts);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        // Writing to memory cannot fail.
        let _ = encoder.write_all(source.as_bytes());
        let compressed = encoder.finish().unwrap_or_default().into();
        Library { hash: hex::encode(&Sha256::digest(source)[..8]), compressed }
    })
}

/// The content of the first of `scripts`, elements of HTML. The second one is MathJax, which the console does not use.
fn source(scripts: &str) -> &str {
    let content = scripts.split_once('>').map_or("", |(_, content)| content);
    content.split_once("</script>").map_or("", |(content, _)| content)
}

/// The address of the library.
pub(crate) async fn address() -> String {
    let hash = tokio::task::spawn_blocking(|| &*library().hash).await.unwrap_or_default();
    format!("/console/assets/{hash}/{NAME}")
}

/// The library under `hash`, compressed or in plain form; `None` if there is none.
pub(crate) async fn served(hash: String, is_compressed: bool) -> Option<Bytes> {
    let read = tokio::task::spawn_blocking(move || {
        let library = library();
        if library.hash != hash {
            return None;
        }
        if is_compressed {
            return Some(library.compressed.clone());
        }
        let mut plain = Vec::new();
        GzDecoder::new(&library.compressed[..]).read_to_end(&mut plain).ok()?;
        Some(plain.into())
    });
    read.await.ok().flatten()
}

/// The library in plain form, to be part of a page.
///
/// # Errors
/// If the embedded library is damaged.
pub(crate) fn text() -> std::io::Result<String> {
    let mut plain = String::new();
    GzDecoder::new(&library().compressed[..]).read_to_string(&mut plain)?;
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn library_is_the_embedded_one() {
        let address = address().await;
        let hash = address.split('/').nth(3).unwrap().to_owned();
        assert_eq!(address, format!("/console/assets/{hash}/plotly.min.js"));
        let plain = served(hash.clone(), false).await.unwrap();
        let text = std::str::from_utf8(&plain).unwrap();
        assert!(text.contains("plotly.js v") && !text.contains("<script"), "{}", &text[..200]);
        assert!(served(hash, true).await.unwrap().len() < plain.len() / 2);
        assert!(served("0".to_owned(), true).await.is_none());
    }

    #[test]
    fn source_is_the_first_script() {
        assert_eq!(source("<script type=\"a\">x = 1 > 0</script>\n<script>y</script>"), "x = 1 > 0");
    }
}
