//! Pagination of lists: `pageSize`, `pageToken` and `nextPageToken`.

use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::response::error::ApiError;

pub(crate) struct Page<T> {
    pub(crate) limit: usize,
    /// Last entry of the previous page; `None` for the first page.
    pub(crate) after: Option<T>,
}

/// Default and maximum size of a page, unless a list states others.
const SIZES: (usize, usize) = (20, 100);

impl<T: FromStr> Page<T> {
    /// Parses `pageSize` and `pageToken` of a list with the usual sizes.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) fn of(page_size: i32, page_token: &str) -> Result<Self, ApiError> {
        Self::read(page_size, page_token, SIZES.0, SIZES.1)
    }

    /// Parses `pageSize` and `pageToken`. A size of 0 means `default`; `most` is the maximum.
    ///
    /// # Errors
    /// If the size is negative, or [`token`] did not issue the token.
    pub(crate) fn read(page_size: i32, page_token: &str, default: usize, most: usize) -> Result<Self, ApiError> {
        let limit = match usize::try_from(page_size) {
            Ok(0) => default,
            Ok(size) => size.min(most),
            Err(_) => return Err(ApiError::invalid("pageSize", format!("{page_size} is negative"))),
        };
        let read = || String::from_utf8(URL_SAFE_NO_PAD.decode(page_token).ok()?).ok()?.parse().ok();
        let no_token = || ApiError::invalid("pageToken", "not issued by this server");
        let after = if page_token.is_empty() { None } else { Some(read().ok_or_else(no_token)?) };
        Ok(Self { limit, after })
    }
}

/// Token of the page after the entry named `last`.
pub(crate) fn token(last: &str) -> String {
    URL_SAFE_NO_PAD.encode(last)
}

/// Cuts `found` to a page of `limit` entries. Returns the token of the next page; empty if there is none.
pub(crate) fn cut<T>(found: &mut Vec<T>, limit: usize, name: impl Fn(&T) -> &str) -> String {
    let has_more = found.len() > limit;
    found.truncate(limit);
    found.last().filter(|_| has_more).map(|last| token(name(last))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Page, cut, token};

    #[test]
    fn page_is_cut_and_followed_by_the_next_one() {
        let mut found = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
        assert_eq!(cut(&mut found, 3, |name| name), "");
        assert_eq!(cut(&mut found, 2, |name| name), token("b"));
        assert_eq!(found, ["a", "b"]);
    }

    #[test]
    fn page_size_is_bounded() {
        let page = |size, token: &str| Page::<u32>::read(size, token, 20, 100).map(|page| (page.limit, page.after));
        assert_eq!(page(0, "").unwrap(), (20, None));
        assert_eq!(page(7, &token("12")).unwrap(), (7, Some(12)));
        assert_eq!(page(1000, "").unwrap(), (100, None));
        assert!(page(-1, "").is_err());
        assert!(page(0, &token("twelve")).is_err());
        assert!(page(0, "!").is_err());
    }
}
