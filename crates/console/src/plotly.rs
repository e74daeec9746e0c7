//! Address of plotly.js, which is served under the hash of its content.

use bytes::Bytes;
pub(crate) use tunesmith_plotly_js::text;
use tunesmith_plotly_js::{COMPRESSED, HASH};

pub(crate) const NAME: &str = "plotly.min.js";

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
