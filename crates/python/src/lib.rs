#![doc = include_str!("../README.md")]

mod calls;
mod engine;
mod error;
mod methods;

use pyo3::prelude::*;

#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::calls::{after_fork, before_fork};
    #[pymodule_export]
    use crate::engine::Engine;
    #[pymodule_export]
    use crate::error::EngineError;

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
