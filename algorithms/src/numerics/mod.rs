//! Special functions, dense factorisations and stratified samples that the models share.
//!
//! Not here: distributions in general, which come from `statrs` and `rand_distr`.

pub mod latin_hypercube;
pub mod normal;
pub mod triangular;
