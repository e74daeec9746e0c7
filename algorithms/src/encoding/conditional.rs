//! Conditional spaces: active features, and vectors that respect them.

use super::activity::{Activity, ParentCondition};
use super::{Encoding, EncodingError, FeatureKind, INACTIVE_ORDINAL, PointNumbering};
use crate::problem::ParameterValues;

impl Encoding {
    /// Whether any feature may be inactive.
    pub fn is_conditional(&self) -> bool {
        self.activity.is_conditional()
    }

    /// Feature whose value determines whether `feature` is active; `None` if it is always active. Skips ancestors with
    /// a single value.
    ///
    /// # Panics
    /// If `feature` is not below [`Self::dimensions`].
    pub fn parent(&self, feature: usize) -> Option<usize> {
        self.activity.conditions[feature].as_ref().map(|condition| condition.parent)
    }

    /// Ordinals of the parent's values that activate `feature`, strictly increasing; empty if it is always active.
    ///
    /// # Panics
    /// If `feature` is not below [`Self::dimensions`].
    pub fn parent_ordinals(&self, feature: usize) -> &[u64] {
        self.activity.conditions[feature].as_ref().map_or(&[], |condition| &condition.ordinals)
    }

    /// All features, parents before their children, otherwise in order.
    pub fn top_down(&self) -> &[usize] {
        &self.activity.top_down
    }

    /// Coordinate of `feature` where it is inactive: 0.5, or the number of levels.
    ///
    /// # Panics
    /// If `feature` is not below [`Self::dimensions`].
    pub fn neutral(&self, feature: usize) -> f64 {
        match self.features[feature].kind {
            FeatureKind::Categorical { levels } => levels as f64,
            _ => 0.5,
        }
    }

    /// Coordinate of `feature`, which is not a double, at an ordinal (see [`super::Key::ordinals`]). `u64::MAX` gives
    /// the neutral coordinate if the feature may be inactive.
    ///
    /// # Panics
    /// If `feature` is not below [`Self::dimensions`], or the ordinal is out of range and not `u64::MAX`.
    pub fn coordinate_at(&self, feature: usize, ordinal: u64) -> f64 {
        if ordinal == INACTIVE_ORDINAL && self.parent(feature).is_some() {
            return self.neutral(feature);
        }
        self.codecs[feature].coordinate_at(ordinal, &self.features[feature].kind)
    }

    /// Whether each feature is active at `vector`, shape `[dimensions]`. Coordinates of parents are rounded to the
    /// nearest feasible ones.
    ///
    /// # Panics
    /// If the length of `vector` is not [`Self::dimensions`].
    pub fn active(&self, vector: &[f64]) -> Vec<bool> {
        self.check_length(vector.len());
        self.active_by(|feature| self.ordinal(feature, vector[feature]))
    }

    /// Sets the coordinates of inactive features to neutral. Other coordinates do not change.
    ///
    /// # Panics
    /// If the length of `vector` is not [`Self::dimensions`].
    pub fn canonicalize(&self, vector: &mut [f64]) {
        self.check_length(vector.len());
        if self.is_conditional() {
            self.update_top_down(vector, |_, _| None);
        }
    }

    /// Updates a vector after the coordinates of parents have changed. Newly inactive features get their neutral
    /// coordinates. Newly active ones (not in `was_active`, shape `[dimensions]`) get the coordinate from `start`.
    ///
    /// # Panics
    /// If `vector` or `was_active` is not of length [`Self::dimensions`].
    pub fn reactivate(&self, vector: &mut [f64], was_active: &[bool], start: impl Fn(usize) -> f64) {
        self.check_length(vector.len());
        self.check_length(was_active.len());
        self.update_top_down(vector, |feature, _| (!was_active[feature]).then(|| start(feature)));
    }

    /// Updates the features from parents to children. An active feature gets the coordinate returned by `change`, if
    /// any; an inactive one gets its neutral coordinate.
    fn update_top_down(&self, vector: &mut [f64], change: impl Fn(usize, f64) -> Option<f64>) {
        let mut active = vec![true; vector.len()];
        for &feature in &self.activity.top_down {
            let condition = self.activity.conditions[feature].as_ref();
            active[feature] = Activity::is_active(condition, &active, |parent| self.ordinal(parent, vector[parent]));
            vector[feature] = match active[feature] {
                true => change(feature, vector[feature]).unwrap_or(vector[feature]),
                false => self.neutral(feature),
            };
        }
    }

    /// Numbering of the points of a finite space; `None` if a feature is continuous.
    pub fn numbering(&self) -> Option<PointNumbering> {
        let radices: Option<Vec<u128>> =
            (0..self.dimensions()).map(|feature| self.feature_cardinality(feature)).collect();
        Some(PointNumbering::new(radices?, &self.activity))
    }

    /// Numbering of the points of a grid with `radices[j]` values, at least one, of feature j. Parents keep all of
    /// their values.
    pub(crate) fn grid_numbering(&self, radices: Vec<u128>) -> PointNumbering {
        self.check_length(radices.len());
        PointNumbering::new(radices, &self.activity)
    }

    /// Whether each feature is active, given the ordinals of the features.
    pub(super) fn active_by(&self, ordinal: impl Fn(usize) -> u64) -> Vec<bool> {
        let mut active = vec![true; self.dimensions()];
        if self.is_conditional() {
            for &feature in &self.activity.top_down {
                active[feature] = Activity::is_active(self.activity.conditions[feature].as_ref(), &active, &ordinal);
            }
        }
        active
    }

    /// Ordinal of the value nearest to `coordinate`; 0 for a double.
    pub(super) fn ordinal(&self, feature: usize, coordinate: f64) -> u64 {
        self.codecs[feature].nearest_ordinal(coordinate, &self.features[feature].kind)
    }

    /// Error for the first value of an inactive or unknown parameter.
    pub(super) fn superfluous(
        &self,
        values: &ParameterValues,
        active: &[bool],
        ordinal: impl Fn(usize) -> u64,
    ) -> Option<EncodingError> {
        let inactive = |name: &str, condition: Option<&ParentCondition>| EncodingError::Inactive {
            parameter: name.to_owned(),
            parent: condition.map_or_else(String::new, |condition| self.features[condition.parent].name.clone()),
        };
        for name in values.keys() {
            if let Ok(feature) = self.features.binary_search_by(|feature| feature.name.cmp(name)) {
                if !active[feature] {
                    return Some(inactive(name, self.activity.conditions[feature].as_ref()));
                }
            } else if let Ok(fixed) = self.fixed.binary_search_by(|fixed| fixed.name.cmp(name)) {
                let condition = self.fixed[fixed].condition.as_ref();
                if !Activity::is_active(condition, active, &ordinal) {
                    return Some(inactive(name, condition));
                }
            } else {
                return Some(EncodingError::Unknown { parameter: name.clone() });
            }
        }
        None
    }
}
