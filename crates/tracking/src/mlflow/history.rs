//! Points that a run already has.

use std::collections::HashMap;

use super::TrackingServer;
use super::messages::Point;
use crate::TrackingError;

/// Points by key, step and value, with their number. Times differ between exports that know the trainer's clock and
/// those that do not.
#[derive(Debug, Clone, Default)]
pub(super) struct History(HashMap<(String, i64, u64), usize>);

impl History {
    /// Reads the points of `metrics` of a run.
    pub(super) async fn read(
        server: &TrackingServer,
        run: &str,
        metrics: impl Iterator<Item = &str>,
    ) -> Result<Self, TrackingError> {
        let mut history = Self::default();
        for metric in metrics {
            for point in server.history(run, metric).await? {
                *history.0.entry(identity(&point)).or_default() += 1;
            }
        }
        Ok(history)
    }

    /// Removes from `points` those that the run has, each once.
    pub(super) fn remove(&mut self, points: &mut Vec<Point>) {
        points.retain(|point| match self.0.get_mut(&identity(point)) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        });
    }
}

fn identity(point: &Point) -> (String, i64, u64) {
    let value = match point.value {
        value if value.is_nan() => f64::NAN,
        // Databases store infinity as the largest number.
        value => value.clamp(-f64::MAX, f64::MAX) + 0.0,
    };
    (point.key.clone(), point.step, value.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_points_are_sent_once_whatever_their_time() {
        let point = |value, timestamp, step| Point { key: "m".into(), value, timestamp, step };
        let mut history = History::default();
        for known in [point(1.0, 1, 1), point(f64::NAN, 1, 2), point(f64::MAX, 1, 3)] {
            *history.0.entry(identity(&known)).or_default() += 1;
        }
        let (again, nan, infinite) = (point(1.0, 9, 1), point(-f64::NAN, 9, 2), point(f64::INFINITY, 9, 3));
        let mut points = vec![again.clone(), nan, infinite, again.clone(), point(1.0, 1, 4)];
        history.remove(&mut points);
        assert_eq!(points, [again, point(1.0, 1, 4)]);
    }
}
