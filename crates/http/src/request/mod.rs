pub(crate) mod body;
pub(crate) mod client;
pub(crate) mod method_override;
pub(crate) mod names;
pub(crate) mod paging;
pub(crate) mod query;
pub(crate) mod web_pages;
