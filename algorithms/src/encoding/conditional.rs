//! What of the encoding is there for conditional spaces: which features are active, and points that keep to it.

use super::activity::{Activity, Gate};
use super::{Encoding, EncodingError, FeatureKind, INACTIVE_ORDINAL, PointNumbering};
use crate::problem::ParameterValues;

impl Encoding {
    /// Whether some feature is active only for some values of another one.
    pub fn is_conditional(&self) -> bool {
        self.activity.is_conditional()
    }

    /// The feature by whose value it is decided whether `feature` is active; `None` if it always is. Parents with one
    /// value, which decide nothing, are left out.
    ///
    /// # Panics
    /// If `feature` is not below [`Self::dimensions`].
    pub fn parent(&self, feature: usize) -> Option<usize> {
        self.activity.gates[feature].as_ref().map(|gate| gate.parent)
    }

    /// The ordinals of the parent's values for which `feature` is active, strictly increasing; empty if it always is.
    ///
    /// # Panics
    /// If `feature` is not below [`Self::dimensions`].
    pub fn parent_ordinals(&self, feature: usize) -> &[u64] {
        self.activity.gates[feature].as_ref().map_or(&[], |gate| &gate.ordinals)
    }

    /// All features, parents before their children, otherwise in order.
    pub fn top_down(&self) -> &[usize] {
        &self.activity.top_down
    }

    /// The coordinate of `feature` where it is inactive: 0.5, or the number of levels.
    ///
    /// # Panics
    /// If `feature` is not below [`Self::dimensions`].
    pub fn neutral(&self, feature: usize) -> f64 {
        match self.features[feature].kind {
            FeatureKind::Categorical { levels } => levels as f64,
            _ => 0.5,
        }
    }

    /// The coordinate of `feature`, no double, at an ordinal (see [`super::Key::ordinals`]); the neutral one at
    /// `u64::MAX` if the feature may be inactive.
    ///
    /// # Panics
    /// If `feature` is not below [`Self::dimensions`], or the ordinal is another one beyond the last value.
    pub fn coordinate_at(&self, feature: usize, ordinal: u64) -> f64 {
        if ordinal == INACTIVE_ORDINAL && self.parent(feature).is_some() {
            return self.neutral(feature);
        }
        self.codecs[feature].coordinate_at(ordinal, &self.features[feature].kind)
    }

    /// Which features are active at `vector`, shape `[dimensions]`. The coordinates of parents count as the nearest
    /// feasible ones.
    ///
    /// # Panics
    /// If the length of `vector` is not [`Self::dimensions`].
    pub fn active(&self, vector: &[f64]) -> Vec<bool> {
        self.check_length(vector.len());
        self.active_by(|feature| self.ordinal(feature, vector[feature]))
    }

    /// Gives inactive features their neutral coordinates. Others are left as they are.
    ///
    /// # Panics
    /// If the length of `vector` is not [`Self::dimensions`].
    pub fn canonicalize(&self, vector: &mut [f64]) {
        self.check_length(vector.len());
        if self.is_conditional() {
            self.walk_down(vector, |_, _| None);
        }
    }

    /// After parents have got other values: gives features that are inactive now their neutral coordinates, and those
    /// that were not active before (`was_active`, shape `[dimensions]`) the coordinates that `start` has for them.
    ///
    /// # Panics
    /// If `vector` or `was_active` is not of length [`Self::dimensions`].
    pub fn reactivate(&self, vector: &mut [f64], was_active: &[bool], start: impl Fn(usize) -> f64) {
        self.check_length(vector.len());
        self.check_length(was_active.len());
        self.walk_down(vector, |feature, _| (!was_active[feature]).then(|| start(feature)));
    }

    /// Goes through the features from parents to children; gives active ones the coordinate that `change` makes of
    /// theirs, if any, and inactive ones the neutral coordinate.
    fn walk_down(&self, vector: &mut [f64], change: impl Fn(usize, f64) -> Option<f64>) {
        let mut active = vec![true; vector.len()];
        for &feature in &self.activity.top_down {
            let gate = self.activity.gates[feature].as_ref();
            active[feature] = Activity::opens(gate, &active, |parent| self.ordinal(parent, vector[parent]));
            vector[feature] = match active[feature] {
                true => change(feature, vector[feature]).unwrap_or(vector[feature]),
                false => self.neutral(feature),
            };
        }
    }

    /// The numbers of the points of a finite space; `None` if a feature is continuous.
    pub fn numbering(&self) -> Option<PointNumbering> {
        let radices: Option<Vec<u128>> =
            (0..self.dimensions()).map(|feature| self.feature_cardinality(feature)).collect();
        Some(PointNumbering::new(radices?, &self.activity))
    }

    /// The numbers of the points of a grid with `radices[j]` values, at least one, of feature j. Parents keep all of
    /// their values.
    pub(crate) fn grid_numbering(&self, radices: Vec<u128>) -> PointNumbering {
        self.check_length(radices.len());
        PointNumbering::new(radices, &self.activity)
    }

    /// Which features are active beside the ordinals of others.
    pub(super) fn active_by(&self, ordinal: impl Fn(usize) -> u64) -> Vec<bool> {
        let mut active = vec![true; self.dimensions()];
        if self.is_conditional() {
            for &feature in &self.activity.top_down {
                active[feature] = Activity::opens(self.activity.gates[feature].as_ref(), &active, &ordinal);
            }
        }
        active
    }

    /// The ordinal of the value nearest to a coordinate; 0 for a double.
    pub(super) fn ordinal(&self, feature: usize, coordinate: f64) -> u64 {
        self.codecs[feature].nearest_ordinal(coordinate, &self.features[feature].kind)
    }

    /// Of values with more than the active parameters, the first that is one too many.
    pub(super) fn superfluous(
        &self,
        values: &ParameterValues,
        active: &[bool],
        ordinal: impl Fn(usize) -> u64,
    ) -> Option<EncodingError> {
        let inactive = |name: &str, gate: Option<&Gate>| EncodingError::Inactive {
            parameter: name.to_owned(),
            parent: gate.map_or_else(String::new, |gate| self.features[gate.parent].name.clone()),
        };
        for name in values.keys() {
            if let Ok(feature) = self.features.binary_search_by(|feature| feature.name.cmp(name)) {
                if !active[feature] {
                    return Some(inactive(name, self.activity.gates[feature].as_ref()));
                }
            } else if let Ok(fixed) = self.fixed.binary_search_by(|fixed| fixed.name.cmp(name)) {
                let gate = self.fixed[fixed].gate.as_ref();
                if !Activity::opens(gate, active, &ordinal) {
                    return Some(inactive(name, gate));
                }
            } else {
                return Some(EncodingError::Unknown { parameter: name.clone() });
            }
        }
        None
    }
}
