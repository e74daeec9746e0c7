//! Pages of lists. A token is the name of the last entry.

use std::str::FromStr;

use tunesmith_domain::Refusal;

pub(crate) struct Page<T> {
    pub(crate) limit: usize,
    /// Last entry of the previous page; `None` for the first page.
    pub(crate) after: Option<T>,
}

impl<T: FromStr> Page<T> {
    /// Parses `page_size` and `token`. A size of 0 is `usual`, and larger ones than `most` are `most`.
    ///
    /// # Errors
    /// If the size is negative, or the token is none.
    pub(crate) fn read(page_size: i32, token: &str, usual: usize, most: usize) -> Result<Self, Refusal> {
        let limit = match usize::try_from(page_size) {
            Ok(0) => usual,
            Ok(size) => size.min(most),
            Err(_) => return Err(Refusal::invalid("pageSize", format!("{page_size} is negative"))),
        };
        let no_token = |_| Refusal::invalid("pageToken", "not issued by this server");
        let after = if token.is_empty() { None } else { Some(token.parse().map_err(no_token)?) };
        Ok(Self { limit, after })
    }
}
