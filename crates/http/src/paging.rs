//! `pageSize`, `pageToken` and `nextPageToken`: long lists in pieces.

use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::status::ApiError;

/// The piece of a list that a client asks for.
pub(super) struct Page<T> {
    /// How many entries it has at most.
    pub(super) limit: usize,
    /// What it comes after; `None`: it is the first.
    pub(super) after: Option<T>,
}

impl<T: FromStr> Page<T> {
    /// Reads `pageSize`, where 0 is `default` and more than `most` is `most`, and `pageToken`.
    ///
    /// # Errors
    /// If the size is negative, or the token none of [`token`].
    pub(super) fn read(page_size: i32, page_token: &str, default: usize, most: usize) -> Result<Self, ApiError> {
        let limit = match usize::try_from(page_size) {
            Ok(0) => default,
            Ok(size) => size.min(most),
            Err(_) => return Err(ApiError::invalid("pageSize", format!("{page_size} is negative"))),
        };
        let read = || String::from_utf8(URL_SAFE_NO_PAD.decode(page_token).ok()?).ok()?.parse().ok();
        let no_token = || ApiError::invalid("pageToken", "is none of this service");
        let after = if page_token.is_empty() { None } else { Some(read().ok_or_else(no_token)?) };
        Ok(Self { limit, after })
    }
}

/// The token of the page after the entry of this name.
pub(super) fn token(last: &str) -> String {
    URL_SAFE_NO_PAD.encode(last)
}

#[cfg(test)]
mod tests {
    use super::{Page, token};

    #[test]
    fn a_page_is_read_with_its_bounds() {
        let page = |size, token: &str| Page::<u32>::read(size, token, 20, 100).map(|page| (page.limit, page.after));
        assert_eq!(page(0, "").unwrap(), (20, None));
        assert_eq!(page(7, &token("12")).unwrap(), (7, Some(12)));
        assert_eq!(page(1000, "").unwrap(), (100, None));
        assert!(page(-1, "").is_err());
        assert!(page(0, &token("twelve")).is_err());
        assert!(page(0, "!").is_err());
    }
}
