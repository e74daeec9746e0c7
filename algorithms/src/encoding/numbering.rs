//! Numbering of the points of a finite space.
//!
//! Without conditions, the numbering is a mixed radix system: each feature is a digit with its own radix, and the last
//! digit varies fastest. A conditional space is a product of trees. Each value of a parent has the product of the trees
//! of the children that are active for it. The digit of the parent varies slowest within its tree.
//!
//! Notation: `n(j)` the number of points of the tree of feature `j`, `r(j)` its radix, `w(j, v)` the product of `n(c)`
//! over the children `c` active at digit `v`, so that `n(j) = sum_v w(j, v)`. `w` is 1 except at the digits named by
//! conditions. The sum of `w(j, v)` below a digit is therefore that digit plus a sum over few others, and the digits of
//! a parent are never listed. Sizes above `u128::MAX` saturate.

use super::activity::Activity;

/// Digit of an inactive feature.
const INACTIVE: u64 = u64::MAX;

/// The numbers, from 0, of the points of a space or of a grid in it. See [`super::Encoding::numbering`].
///
/// ```
/// use tunesmith_algorithms::encoding::Encoding;
/// use tunesmith_algorithms::problem::{Condition, ParameterKind, ParameterSpec, ParameterValue, ScaleType, SearchSpace};
///
/// let kind = |max| ParameterKind::Integer { min: 1, max, scale: ScaleType::UnitLinear };
/// let only_with_two = Condition::new("a", vec![ParameterValue::Integer(2)]);
/// let space = SearchSpace::new(vec![
///     ParameterSpec::new("a", kind(3))?,
///     ParameterSpec::new("b", kind(4))?.with_condition(only_with_two),
/// ])?;
/// let numbering = Encoding::new(&space).numbering().expect("the space is finite");
/// assert_eq!(numbering.size(), Some(1 + 4 + 1));
/// assert_eq!(numbering.ordinals(0), [0, u64::MAX]);
/// assert_eq!(numbering.ordinals(2), [1, 1]);
/// assert_eq!(numbering.index(&[1, 1]), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PointNumbering {
    /// One per feature.
    nodes: Vec<Node>,
    /// Always active features, in order.
    roots: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq)]
struct Node {
    /// From 1 to 2^64.
    radix: u128,
    /// By increasing digit. Other digits have no children.
    branches: Vec<Branch>,
    /// `n(j)`.
    size: u128,
}

#[derive(Debug, Clone, PartialEq)]
struct Branch {
    digit: u64,
    /// In order.
    children: Vec<usize>,
    /// `w(j, digit)`.
    weight: u128,
    /// Sum of `w(j, v)` over all digits `v` below this one.
    below: u128,
}

impl PointNumbering {
    /// Numbering with `radices[j]` digits of feature j, each from 1 to 2^64.
    pub(super) fn new(radices: Vec<u128>, activity: &Activity) -> Self {
        let mut nodes: Vec<Node> =
            radices.into_iter().map(|radix| Node { radix, branches: Vec::new(), size: radix }).collect();
        let mut roots = Vec::new();
        for (child, condition) in activity.conditions.iter().enumerate() {
            let Some(condition) = condition else {
                roots.push(child);
                continue;
            };
            for &digit in &condition.ordinals {
                let branches = &mut nodes[condition.parent].branches;
                match branches.binary_search_by_key(&digit, |branch| branch.digit) {
                    Ok(place) => branches[place].children.push(child),
                    Err(place) => {
                        branches.insert(place, Branch { digit, children: vec![child], weight: 1, below: 0 });
                    }
                }
            }
        }
        for &j in activity.top_down.iter().rev() {
            let mut more = 0_u128;
            for place in 0..nodes[j].branches.len() {
                let product = |product: u128, &child: &usize| product.saturating_mul(nodes[child].size);
                let weight = nodes[j].branches[place].children.iter().fold(1, product);
                let branch = &mut nodes[j].branches[place];
                branch.weight = weight;
                branch.below = more.saturating_add(u128::from(branch.digit));
                more = more.saturating_add(weight - 1);
            }
            nodes[j].size = nodes[j].radix.saturating_add(more);
        }
        Self { nodes, roots }
    }

    /// Number of points; `None` from `u128::MAX` on.
    pub fn size(&self) -> Option<u128> {
        let size = self.roots.iter().fold(1_u128, |size, &root| size.saturating_mul(self.nodes[root].size));
        (size < u128::MAX).then_some(size)
    }

    pub(crate) fn radices(&self) -> impl Iterator<Item = u128> {
        self.nodes.iter().map(|node| node.radix)
    }

    /// Ordinals of the point with number `index` (see [`super::Key::ordinals`]). Numbers wrap around at the end.
    pub fn ordinals(&self, index: u128) -> Vec<u64> {
        let mut ordinals = vec![INACTIVE; self.nodes.len()];
        // Products still to be divided among their factors.
        let mut open: Vec<(&[usize], u128)> = vec![(&self.roots, index)];
        while let Some((features, mut rest)) = open.pop() {
            for &j in features.iter().rev() {
                let node = &self.nodes[j];
                let inside = rest % node.size;
                rest /= node.size;
                let (digit, branch) = node.locate(inside);
                ordinals[j] = digit;
                if let Some((branch, inside)) = branch {
                    open.push((&branch.children, inside));
                }
            }
        }
        ordinals
    }

    /// Number of the point with these ordinals; `None` above `u128::MAX`. Ordinals of inactive features are ignored.
    ///
    /// # Panics
    /// If the number of ordinals is not the number of features.
    pub fn index(&self, ordinals: &[u64]) -> Option<u128> {
        assert_eq!(ordinals.len(), self.nodes.len(), "one ordinal per feature");
        self.product_index(&self.roots, ordinals)
    }

    fn product_index(&self, features: &[usize], ordinals: &[u64]) -> Option<u128> {
        let mut index = 0_u128;
        for &j in features {
            let node = &self.nodes[j];
            let inside = match node.branches.binary_search_by_key(&ordinals[j], |branch| branch.digit) {
                Ok(place) => {
                    let branch = &node.branches[place];
                    branch.below.checked_add(self.product_index(&branch.children, ordinals)?)?
                }
                Err(place) => node.below(place, ordinals[j])?,
            };
            index = index.checked_mul(node.size)?.checked_add(inside)?;
        }
        Some(index)
    }
}

impl Node {
    /// Sum of `w` below `digit`, which is not above the branch at `place` and above the previous branch.
    fn below(&self, place: usize, digit: u64) -> Option<u128> {
        let Some(last) = place.checked_sub(1).map(|place| &self.branches[place]) else {
            return Some(u128::from(digit));
        };
        last.below.checked_add(last.weight)?.checked_add(u128::from(digit - last.digit - 1))
    }

    /// Digit whose part of the tree contains the number `inside`, and its branch with the number inside it.
    fn locate(&self, inside: u128) -> (u64, Option<(&Branch, u128)>) {
        let after = self.branches.partition_point(|branch| branch.below <= inside);
        let Some(last) = after.checked_sub(1).map(|place| &self.branches[place]) else {
            // Below the first branch, numbers are digits, and a digit fits `u64`.
            return (inside as u64, None);
        };
        let past = inside - last.below;
        match past.checked_sub(last.weight) {
            None => (last.digit, Some((last, past))),
            Some(further) => (last.digit + 1 + further as u64, None),
        }
    }
}
