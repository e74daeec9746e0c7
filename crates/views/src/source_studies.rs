//! Use of the source studies of a study by its search.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tunesmith_algorithms::transfer::SourceInfluence;
use tunesmith_domain::{SourceRelation, StudyId};

/// Source studies of a study, and how much each counts for the search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceStudies {
    /// Source studies, the nearest last.
    pub sources: Vec<SourceStudy>,
}

/// Source study of a study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceStudy {
    /// ID of the source study within its location.
    pub study: String,
    /// Relation to the study.
    pub relation: Relation,
    /// Number of its trials that count as trials of the study.
    pub own_trials: u64,
    /// Number of its other trials that can inform the search.
    pub other_trials: usize,
    /// Rank correlation between the results of the study and their predictions by the model of those trials, -1 to 1; absent
    /// without two different results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank_correlation: Option<f64>,
    /// Share of those trials in the variance of the search's model over the search space, 0 to 1; 0 if they are not used.
    pub share: f64,
    /// The same in words.
    pub description: String,
}

/// Relation of a source study to the study that it informs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Relation {
    /// Same program and metrics: its trials inside the search space count as those of the study.
    Continued,
    /// Another study: a model of its trials informs the search while it predicts the results.
    Related,
}

impl SourceStudy {
    /// Use of the study `id`: `own_trials` count as trials of the study that it informs, and the others have this influence.
    pub fn new(id: &StudyId, relation: SourceRelation, own_trials: u64, influence: Option<SourceInfluence>) -> Self {
        let own = (own_trials > 0).then(|| format!("{own_trials} trials as results of this study"));
        let others = influence.as_ref().map(influence_text);
        let texts: Vec<String> = own.into_iter().chain(others).collect();
        Self {
            study: id.parts().2.to_owned(),
            relation: match relation {
                SourceRelation::Continued => Relation::Continued,
                SourceRelation::Related => Relation::Related,
            },
            own_trials,
            other_trials: influence.map_or(0, |influence| influence.trials),
            rank_correlation: influence.and_then(|influence| influence.rank_correlation),
            share: influence.map_or(0.0, |influence| influence.share),
            description: if texts.is_empty() { "no influence".to_owned() } else { texts.join("; ") },
        }
    }
}

fn influence_text(influence: &SourceInfluence) -> String {
    let SourceInfluence { trials, rank_correlation, share, .. } = influence;
    let percent = (100.0 * share).round();
    let weight = if *share > 0.0 { format!("with {percent}% of the model") } else { "without influence".to_owned() };
    match rank_correlation {
        None => format!("{trials} trials {weight}"),
        Some(correlation) => format!("{trials} trials {weight}, rank correlation with the results {correlation:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_states_the_use_of_a_source_study() {
        let description =
            |relation, own, influence| SourceStudy::new(&"p/l/s".parse().unwrap(), relation, own, influence);
        let influence =
            |rank_correlation, share| Some(SourceInfluence { study: 0, trials: 40, rank_correlation, share });
        let related = |influence| description(SourceRelation::Related, 0, influence).description;
        assert_eq!(related(None), "no influence");
        assert_eq!(related(influence(None, 1.0)), "40 trials with 100% of the model");
        let used = "40 trials with 62% of the model, rank correlation with the results 0.81";
        assert_eq!(related(influence(Some(0.812), 0.617)), used);
        let dropped = "40 trials without influence, rank correlation with the results -0.50";
        assert_eq!(related(influence(Some(-0.5), 0.0)), dropped);
        let continued = description(SourceRelation::Continued, 6, influence(Some(1.0), 0.5));
        assert_eq!(
            serde_json::to_value(&continued).unwrap(),
            serde_json::json!({
                "study": "s", "relation": "CONTINUED", "ownTrials": 6, "otherTrials": 40, "rankCorrelation": 1.0,
                "share": 0.5,
                "description": "6 trials as results of this study; 40 trials with 50% of the model, rank correlation with \
                                the results 1.00"})
        );
    }
}
