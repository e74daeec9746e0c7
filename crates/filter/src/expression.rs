/// Boolean combination of `L`. The depth of parsed expressions is bounded, so recursion is safe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression<L> {
    /// True if all parts are; true without parts.
    All(Vec<Self>),
    /// True if any part is; false without parts.
    Any(Vec<Self>),
    Not(Box<Self>),
    Leaf(L),
}

impl<L> Expression<L> {
    /// Evaluates the expression, given the values of its leaves.
    ///
    /// ```
    /// use tunesmith_filter::Expression::{All, Any, Leaf, Not};
    ///
    /// let even_or_small = Any(vec![Leaf(2), Not(Box::new(Leaf(5)))]);
    /// assert!(even_or_small.holds(&mut |leaf| 12 % leaf == 0));
    /// assert!(!All(vec![Leaf(3), even_or_small]).holds(&mut |leaf| 25 % leaf == 0));
    /// ```
    pub fn holds(&self, leaf: &mut impl FnMut(&L) -> bool) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(leaf)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(leaf)),
            Self::Not(part) => !part.holds(leaf),
            Self::Leaf(own) => leaf(own),
        }
    }

    /// Replaces each leaf.
    ///
    /// # Errors
    /// The first error of `replace`.
    pub fn try_map<M, E>(&self, replace: &mut impl FnMut(&L) -> Result<Expression<M>, E>) -> Result<Expression<M>, E> {
        let mut all = |parts: &[Self]| parts.iter().map(|part| part.try_map(replace)).collect::<Result<Vec<_>, E>>();
        Ok(match self {
            Self::All(parts) => Expression::All(all(parts)?),
            Self::Any(parts) => Expression::Any(all(parts)?),
            Self::Not(part) => Expression::Not(Box::new(part.try_map(replace)?)),
            Self::Leaf(leaf) => replace(leaf)?,
        })
    }
}
