//! Minimisation problems of 25 to 100 parameters with known optima.
//!
//! Each problem has instances with different optima, so that no optimizer gains from a favoured place such as the first
//! levels or the centre (Papenmeier, Nardi & Poloczek 2023, Bounce, arXiv 2307.00618, show that the published results
//! of some optimizers depend on it). The instance number is the seed of a run, so it is not part of the name.
//!
//! COCO's large-scale suite has block rotations; functions f01, f08 and f15 here have the dense rotations of
//! [`super::bbob`].

mod categories;
mod continuous;
mod mixed;
#[cfg(test)]
mod tests;

pub use categories::{chain, large_clauses};
pub use continuous::hidden_hartmann6;
pub use mixed::ackley53;

use super::bbob::large_bbob;
use crate::problem::Problem;

/// Constructors of the problems of the suite `large`, by instance number.
pub fn large() -> [fn(u64) -> Box<dyn Problem>; 10] {
    [
        |instance| Box::new(ackley53(instance)),
        |instance| Box::new(chain(instance)),
        |instance| Box::new(large_clauses(instance)),
        |instance| Box::new(hidden_hartmann6(instance)),
        |instance| Box::new(large_bbob(1, 50, instance)),
        |instance| Box::new(large_bbob(8, 50, instance)),
        |instance| Box::new(large_bbob(15, 50, instance)),
        |instance| Box::new(large_bbob(1, 100, instance)),
        |instance| Box::new(large_bbob(8, 100, instance)),
        |instance| Box::new(large_bbob(15, 100, instance)),
    ]
}

/// Instance number as a part of a pseudo-random key.
fn part(instance: u64) -> usize {
    // Keys have the width of the machine; instance numbers are small.
    instance as usize
}
