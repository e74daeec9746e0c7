pub(crate) mod error;
pub(crate) mod form;
mod json_text;
pub(crate) mod log;
pub(crate) mod rendered;
