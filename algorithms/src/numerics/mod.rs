//! Special functions, dense factorisations and stratified samples, shared by the models.
//!
//! General distributions come from `statrs` and `rand_distr`.

pub(crate) mod elementary;
pub mod latin_hypercube;
pub mod lbfgs;
pub(crate) mod lower_blocks;
pub mod normal;
pub(crate) mod padded;
pub(crate) mod products;
pub(crate) mod ranks;
pub mod triangular;
