pub(crate) mod document;
pub(crate) mod health;
pub(crate) mod ml;
pub(crate) mod programs;
pub(crate) mod state;
pub(crate) mod table;
