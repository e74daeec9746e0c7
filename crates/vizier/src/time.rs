//! Times and durations of protocol buffers.

use std::time::Duration;

use jiff::Timestamp;

/// `time` as a message.
pub fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    // The fraction of a time before 1970 is negative in jiff, and never in a message.
    let (mut seconds, mut nanos) = (time.as_second(), time.subsec_nanosecond());
    if nanos < 0 {
        (seconds, nanos) = (seconds - 1, nanos + 1_000_000_000);
    }
    prost_types::Timestamp { seconds, nanos }
}

/// The time of a message; `None` if it is out of range.
pub(crate) fn of_timestamp(time: &prost_types::Timestamp) -> Option<Timestamp> {
    Timestamp::new(time.seconds, time.nanos).ok()
}

/// `duration` as a message.
pub fn duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: duration.subsec_nanos().cast_signed(),
    }
}

/// The duration of a message; `None` if it is negative or malformed.
pub fn std_duration(duration: &prost_types::Duration) -> Option<Duration> {
    let nanos = u32::try_from(duration.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(u64::try_from(duration.seconds).ok()?, nanos))
}
