//! The contract of [`crate::designer`] as checks for every designer.

use std::collections::HashSet;
use std::num::NonZeroUsize;

use super::history::{OwnedHistory, awkward_histories, everyday_history, with_all_values};
use super::problems::{
    conditional_finite_problems, conditional_problems, defined_backwards, every_kind_and_scale, finite_problem,
    finite_problem_of_numbers, one_point_problem, outputs_backwards, several_outputs, upside_down,
};
use crate::designer::{Capabilities, Designer, DesignerError, SuggestRequest};
use crate::encoding::{Encoding, Key};
use crate::interruption::Interruption;
use crate::problem::{
    CompletedTrial, Fidelity, ParameterKind, PendingTrial, ProblemStatement, TrialId, TrialOutcome, TrialSuggestion,
};

/// Builds the designer under test for a problem and a seed.
type Factory<'a> = dyn Fn(&ProblemStatement, u64) -> Result<Box<dyn Designer>, DesignerError> + 'a;

const SEED: u64 = 42;

/// Runs every check of the contract on the designers that `factory` builds for a problem and a seed.
///
/// The factory may return [`DesignerError::Unsupported`] only for spaces with doubles, with categories or with
/// conditional parameters, and for problems with several metrics or with constraints, and only if its designer states
/// so in its [`Capabilities`].
///
/// # Panics
/// If the contract is violated. The message names the violation, the space and the history.
pub(crate) fn designer_contract(factory: impl Fn(&ProblemStatement, u64) -> Result<Box<dyn Designer>, DesignerError>) {
    let kit = Kit::new(&factory);
    let mut problems = every_kind_and_scale();
    problems.push(("finite".to_owned(), finite_problem()));
    problems.extend(conditional_problems());
    problems.extend(several_outputs());
    for (space, problem) in &problems {
        for (name, history) in awkward_histories(problem) {
            kit.check_suggestions(problem, &history, &format!("space {space:?}, history {name:?}"));
        }
        for history in [OwnedHistory::default(), everyday_history(problem)] {
            kit.check_invariances(problem, &history, &format!("space {space:?}, {} trials", history.len()));
        }
        kit.check_interruption(problem, &format!("space {space:?}"));
    }
    for count in 1..=4 {
        kit.check_exhaustion("finite", &kit.finite, count);
    }
    for (name, problem) in conditional_finite_problems().iter().filter(|(_, problem)| kit.build(problem).is_some()) {
        for count in [1, 3] {
            kit.check_exhaustion(name, problem, count);
        }
    }
    kit.check_space_of_one_point();
    kit.check_foreign_trials();
}

struct Kit<'a> {
    factory: &'a Factory<'a>,
    capabilities: Capabilities,
    /// 18 points of kinds that the designer can search.
    finite: ProblemStatement,
}

impl<'a> Kit<'a> {
    fn new(factory: &'a Factory<'a>) -> Self {
        let mut finite = finite_problem();
        let designer = factory(&finite, SEED).or_else(|_| {
            finite = finite_problem_of_numbers();
            factory(&finite, SEED)
        });
        let designer = designer.unwrap_or_else(|error| panic!("a finite space: {error}"));
        Self { factory, capabilities: designer.capabilities(), finite }
    }

    /// `None` if the designer does not support the problem, as stated in its capabilities.
    fn build(&self, problem: &ProblemStatement) -> Option<Box<dyn Designer>> {
        let has = |kind: &dyn Fn(&ParameterKind) -> bool| {
            problem.search_space().parameters().iter().any(|spec| spec.cardinality() != Some(1) && kind(spec.kind()))
        };
        let has_doubles = has(&|kind| matches!(kind, ParameterKind::Double { .. }));
        let has_categories = has(&|kind| matches!(kind, ParameterKind::Categorical { .. }));
        let has_conditions = problem.search_space().parameters().iter().any(|spec| spec.condition().is_some());
        match (self.factory)(problem, SEED) {
            Ok(designer) => Some(designer),
            Err(DesignerError::Unsupported { .. })
                if has_doubles && !self.capabilities.doubles
                    || has_categories && !self.capabilities.categories
                    || has_conditions && !self.capabilities.conditions
                    || problem.metrics().len() > 1 && !self.capabilities.several_metrics
                    || !problem.constraints().is_empty() && !self.capabilities.constraints =>
            {
                None
            }
            Err(error) => panic!("no designer for {problem:?}: {error}"),
        }
    }

    fn suggest(
        &self,
        problem: &ProblemStatement,
        history: &OwnedHistory,
        count: usize,
        context: &str,
    ) -> Option<Vec<TrialSuggestion>> {
        let designer = self.build(problem)?;
        let count = NonZeroUsize::new(count).expect("the kit asks for at least one suggestion");
        let request = SuggestRequest { first_trial_id: history.next_id(), count };
        match designer.suggest(history.as_history(), request) {
            Ok(suggestions) => Some(suggestions),
            Err(error) => panic!("{context}: no suggestion: {error}"),
        }
    }

    /// Checks the number of suggestions, their feasibility, and that no point of a finite space is repeated.
    fn check_suggestions(&self, problem: &ProblemStatement, history: &OwnedHistory, context: &str) {
        let encoding = Encoding::new(problem.search_space());
        let mut used = used_keys(&encoding, history);
        let Some(suggestions) = self.suggest(problem, history, 3, context) else { return };
        let left = encoding.cardinality().map(|cardinality| cardinality - used.len() as u64);
        assert_eq!(suggestions.len() as u64, left.map_or(3, |left| left.min(3)), "{context}: number of suggestions");
        for TrialSuggestion { parameters, .. } in &suggestions {
            if let Err(error) = problem.search_space().check(parameters) {
                panic!("{context}: {parameters:?} is not a point of the space: {error}");
            }
            let is_new = used.insert(encoding.key(parameters).expect("a point of the space has a key"));
            assert!(is_new || encoding.cardinality().is_none(), "{context}: {parameters:?} is repeated");
        }
    }

    /// Rebuilding the designer, reordering trials, parameters or levels, and negating the objective have no effect.
    fn check_invariances(&self, problem: &ProblemStatement, history: &OwnedHistory, context: &str) {
        let Some(first) = self.suggest(problem, history, 2, context) else { return };
        let again = |problem: &ProblemStatement, history: &OwnedHistory, changed: &str| {
            let other = self.suggest(problem, history, 2, context);
            assert_eq!(other.as_ref(), Some(&first), "{context}: suggestions changed with {changed}");
        };
        again(problem, history, "a rebuilt designer");
        again(problem, &history.reversed(), "the order of trials");
        again(&defined_backwards(problem), history, "the order of parameters and levels");
        again(&upside_down(problem), &history.negated(), "the sign of the objective");
        let metrics = problem.metrics().len();
        if metrics + problem.constraints().len() > 1 {
            let turned = history.with_outputs_backwards(metrics);
            again(&outputs_backwards(problem), &turned, "the order of metrics and constraints");
        }
    }

    /// Exhausts a finite space with `count` suggestions at a time, with pending, failed and stopped trials: each point
    /// is suggested once, then none.
    fn check_exhaustion(&self, name: &str, problem: &ProblemStatement, count: usize) {
        let encoding = Encoding::new(problem.search_space());
        let size = encoding.cardinality().expect("the space is finite") as usize;
        let context = format!("space {name:?}, {count} at a time");
        let mut history = OwnedHistory::default();
        loop {
            let suggestions = self.suggest(problem, &history, count, &context).unwrap_or_default();
            if suggestions.is_empty() {
                break;
            }
            assert!(suggestions.len() <= count, "{context}: more suggestions than asked for");
            for TrialSuggestion { parameters, .. } in suggestions {
                if let Err(error) = problem.search_space().check(&parameters) {
                    panic!("{context}: {parameters:?} is not a point of the space: {error}");
                }
                let id = history.next_id();
                let measured = |fidelity| TrialOutcome::Measured { values: vec![(id.0 as f64).cos()], fidelity };
                let outcome = match id.0 % 6 {
                    0 => {
                        history.pending.push(PendingTrial { id, parameters });
                        continue;
                    }
                    1 => TrialOutcome::Infeasible,
                    2 => measured(Fidelity::Partial),
                    3 => measured(Fidelity::Predicted { deviation: 0.1 }),
                    _ => measured(Fidelity::Full),
                };
                let outcome = with_all_values(problem, outcome);
                history.completed.push(CompletedTrial { id, parameters, outcome });
            }
            assert!(history.len() <= size, "{context}: the space has {size} points, trial {} is beyond", history.len());
        }
        assert_eq!(used_keys(&encoding, &history).len(), size, "{context}: different points before the end");
        assert_eq!(history.len(), size, "{context}: trials before the end");
        assert_eq!(self.suggest(problem, &history, 1, &context), Some(vec![]), "{context}: after the end");
    }

    fn check_space_of_one_point(&self) {
        let problem = one_point_problem();
        let context = "the space of one point";
        let mut history = OwnedHistory::default();
        let mut suggestions = self.suggest(&problem, &history, 2, context).expect("the space has no doubles");
        assert_eq!(suggestions.len(), 1, "{context}: number of suggestions");
        let parameters = suggestions.remove(0).parameters;
        assert_eq!(problem.search_space().check(&parameters), Ok(()), "{context}");
        history.pending.push(PendingTrial { id: TrialId::FIRST, parameters });
        assert_eq!(self.suggest(&problem, &history, 1, context), Some(vec![]), "{context}: after the end");
    }

    /// An interrupted call has no result or that of an uninterrupted one, and does not affect later calls.
    fn check_interruption(&self, problem: &ProblemStatement, context: &str) {
        let history = everyday_history(problem);
        let Some(expected) = self.suggest(problem, &history, 2, context) else { return };
        let count = NonZeroUsize::new(2).expect("it is 2");
        let request = SuggestRequest { first_trial_id: history.next_id(), count };
        let designer = self.build(problem).expect("it was built before");
        let interruption = Interruption::default();
        interruption.interrupt();
        match designer.suggest_until(history.as_history(), request, &interruption) {
            Err(DesignerError::Interrupted) => {}
            answer => assert_eq!(answer.as_ref(), Ok(&expected), "{context}: interrupted"),
        }
        let later = designer.suggest(history.as_history(), request);
        assert_eq!(later.as_ref(), Ok(&expected), "{context}: after an interrupted call");
    }

    /// A trial outside a finite space is reported as the caller's error, with its id.
    fn check_foreign_trials(&self) {
        let foreign = PendingTrial { id: TrialId(7), parameters: [].into() };
        let history = OwnedHistory { completed: vec![], pending: vec![foreign] };
        let designer = self.build(&self.finite).expect("it was built before");
        let answer = designer.suggest(history.as_history(), SuggestRequest::one(TrialId(8)));
        assert!(
            matches!(answer, Err(DesignerError::ForeignTrial { trial: TrialId(7), .. })),
            "a trial without parameters was accepted: {answer:?}"
        );
    }
}

fn used_keys(encoding: &Encoding, history: &OwnedHistory) -> HashSet<Key> {
    let completed = history.completed.iter().map(|trial| &trial.parameters);
    let pending = history.pending.iter().map(|trial| &trial.parameters);
    let key = |parameters| encoding.key(parameters).expect("the kit's trials are points of the space");
    completed.chain(pending).map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::designer::History;
    use crate::designers::RandomSearch;

    /// Random search with a fault in its input or output.
    struct Broken {
        inner: RandomSearch,
        fault: Fault,
    }

    #[derive(Clone, Copy)]
    enum Fault {
        ForgetsPending,
        DependsOnOrder,
        StopsShort,
        LeavesOut,
    }

    impl Designer for Broken {
        fn capabilities(&self) -> Capabilities {
            self.inner.capabilities()
        }

        fn suggest_until(
            &self,
            mut history: History<'_>,
            mut request: SuggestRequest,
            interruption: &Interruption,
        ) -> Result<Vec<TrialSuggestion>, DesignerError> {
            if let Fault::ForgetsPending = self.fault {
                history.pending = &[];
            }
            if let (Fault::DependsOnOrder, Some(trial)) = (self.fault, history.completed.first()) {
                request.first_trial_id = request.first_trial_id.offset(trial.id.0);
            }
            let mut suggestions = self.inner.suggest_until(history, request, interruption)?;
            if let Fault::StopsShort = self.fault {
                suggestions.truncate(2);
            }
            if let (Fault::LeavesOut, Some(suggestion)) = (self.fault, suggestions.first_mut()) {
                suggestion.parameters.pop_first();
            }
            Ok(suggestions)
        }
    }

    fn run(fault: Fault) {
        designer_contract(|problem, seed| Ok(Box::new(Broken { inner: RandomSearch::new(problem, seed), fault })));
    }

    #[test]
    #[should_panic(expected = "number of suggestions")]
    fn forgotten_pending_trials_are_detected() {
        // The fault makes it suggest more points than are left.
        run(Fault::ForgetsPending);
    }

    #[test]
    #[should_panic(expected = "suggestions changed with the order of trials")]
    fn dependence_on_the_order_of_trials_is_detected() {
        run(Fault::DependsOnOrder);
    }

    #[test]
    #[should_panic(expected = "number of suggestions")]
    fn too_few_suggestions_are_detected() {
        run(Fault::StopsShort);
    }

    #[test]
    #[should_panic(expected = "is not a point of the space")]
    fn missing_parameters_are_detected() {
        run(Fault::LeavesOut);
    }
}
