//! Labels of the compared optimizers: their names, with the parts of the schedule that vary between the records.

use std::collections::BTreeSet;

use tunesmith_algorithms::early_stopping::StoppingRuleKind;

use crate::early_stopping::{EarlyStopping, Epochs};
use crate::record::{Mode, RunRecord, Schedule};

/// Parts of the schedule that vary between the records and belong in the labels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Varying {
    mode: bool,
    initial_points: bool,
    early_stopping: bool,
    time_limit: bool,
}

impl Varying {
    pub(super) fn among<'a>(records: impl Iterator<Item = &'a RunRecord>) -> Self {
        let schedules: BTreeSet<&Schedule> = records.map(|record| &record.key.schedule).collect();
        let differ = |same: &dyn Fn(&Schedule, &Schedule) -> bool| {
            schedules.iter().zip(schedules.iter().skip(1)).any(|(one, other)| !same(one, other))
        };
        Self {
            mode: differ(&|one, other| (one.mode, one.parallel) == (other.mode, other.parallel)),
            initial_points: differ(&|one, other| one.initial_points == other.initial_points),
            early_stopping: differ(&|one, other| one.early_stopping == other.early_stopping),
            time_limit: differ(&|one, other| one.time_limit_secs == other.time_limit_secs),
        }
    }

    /// Label of the optimizer of `record`: `gp`, `gp (median stopping)`, `gp (batches of 4, 10 initial points)`.
    pub(super) fn label(self, record: &RunRecord) -> String {
        let schedule = &record.key.schedule;
        let mut parts = Vec::new();
        if self.mode {
            parts.push(match schedule.mode {
                Mode::Sequential => "one at a time".to_owned(),
                Mode::Batch => format!("batches of {}", schedule.parallel),
                Mode::Asynchronous => format!("{} at once", schedule.parallel),
            });
        }
        if self.initial_points {
            parts.push(format!("{} initial points", schedule.initial_points));
        }
        if self.early_stopping
            && let Some(rule) = schedule.early_stopping
        {
            let of_service = |rule| match rule {
                StoppingRuleKind::Median => "median stopping",
                StoppingRuleKind::DecayCurve => "decay-curve stopping",
                StoppingRuleKind::Asha => "successive halving",
            };
            let rule = match rule {
                EarlyStopping::Rule(rule) => of_service(rule).to_owned(),
                EarlyStopping::Resuming(rule) => format!("{} and resuming", of_service(rule)),
                EarlyStopping::Epochs(Epochs { reports, kept }) => format!("{reports} reports, best {kept} go on"),
                EarlyStopping::Hyperband => "Hyperband".to_owned(),
                EarlyStopping::Optimizer => "stopping of its own".to_owned(),
            };
            parts.push(rule);
        }
        if self.time_limit
            && let Some(limit) = schedule.time_limit_secs
        {
            parts.push(format!("{limit} s"));
        }
        if parts.is_empty() {
            return record.key.optimizer.clone();
        }
        format!("{} ({})", record.key.optimizer, parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic_fixture::record;
    use super::*;

    #[test]
    fn labels_contain_only_the_differing_parts_of_the_schedule() {
        let plain = record("gp", "f1", 1, &[1.0]);
        let mut batch = plain.clone();
        batch.key.schedule.mode = Mode::Batch;
        batch.key.schedule.parallel = 4;
        let mut stopped = batch.clone();
        stopped.key.schedule.early_stopping = Some(EarlyStopping::Rule(StoppingRuleKind::Median));

        let same = Varying::among([&plain, &plain].into_iter());
        assert_eq!(same.label(&plain), "gp");
        let modes = Varying::among([&plain, &batch].into_iter());
        assert_eq!([modes.label(&plain), modes.label(&batch)], ["gp (one at a time)", "gp (batches of 4)"]);
        let rules = Varying::among([&batch, &stopped].into_iter());
        assert_eq!([rules.label(&batch), rules.label(&stopped)], ["gp", "gp (median stopping)"]);
        stopped.key.schedule.early_stopping = "asha:resume".parse().ok();
        assert_eq!(rules.label(&stopped), "gp (successive halving and resuming)");
        stopped.key.schedule.early_stopping = "i_epoch:2:5".parse().ok();
        assert_eq!(rules.label(&stopped), "gp (2 reports, best 5 go on)");
        stopped.key.schedule.early_stopping = Some(EarlyStopping::Hyperband);
        stopped.key.schedule.time_limit_secs = Some(100);
        let limits = Varying::among([&batch, &stopped].into_iter());
        assert_eq!([limits.label(&batch), limits.label(&stopped)], ["gp", "gp (Hyperband, 100 s)"]);
    }
}
