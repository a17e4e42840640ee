//! When events are due: evenly spread, whatever the machine does. Pure; time is an argument.

use std::time::Duration;

use machine::failure::{Failure, Outcome};

/// A rate is kept to a thousandth of an event a second.
const THOUSANDTHS: f64 = 1000.0;

const NANOS_OF_THOUSAND_SECONDS: u64 = 1_000_000_000_000;

/// The most events a second: one each nanosecond.
const RATE_MAX: f64 = 1e9;

/// How often an event is due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// So many events a second.
    Rate(f64),
    /// So many senders, each of which sends once in an interval. They take turns, so that this is
    /// the rate `senders / interval`.
    Senders {
        /// How many.
        senders: u32,
        /// Between two events of one sender.
        interval: Duration,
    },
}

/// The times at which events are due, counted from the first, which is due at 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schedule {
    /// So many events are due in so many nanoseconds.
    events: u64,
    nanos: u64,
    /// How many there are in all.
    length: u64,
}

impl Schedule {
    /// Events at a pace until `duration` is over or there were `count`, whichever is first.
    pub(super) fn new(pace: Pace, duration: Option<Duration>, count: Option<u64>) -> Outcome<Self> {
        let (events, nanos) = pace.ratio()?;
        let mut schedule = Self {
            events,
            nanos,
            length: count.unwrap_or(u64::MAX),
        };
        if let Some(duration) = duration {
            let end = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
            schedule.length = match end.checked_sub(1) {
                Some(last) => schedule.due_by(last),
                None => 0,
            };
        }
        if schedule.length == 0 {
            return Err(Failure::new(
                "there is no event to publish: give a longer --duration or a larger --count",
            ));
        }
        Ok(schedule)
    }

    /// When event `index` is due, in nanoseconds since the first, which is event 0.
    pub(super) fn due(&self, index: u64) -> u64 {
        let nanos = u128::from(index) * u128::from(self.nanos) / u128::from(self.events);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// How many events are due at `nanos` or before.
    pub(super) fn due_by(&self, nanos: u64) -> u64 {
        let ended = (u128::from(nanos) + 1) * u128::from(self.events);
        let due = ended.div_ceil(u128::from(self.nanos));
        u64::try_from(due).unwrap_or(u64::MAX).min(self.length)
    }

    /// How many events there are in all.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Events a second.
    pub(super) fn rate(&self) -> f64 {
        self.events as f64 * 1e9 / self.nanos as f64
    }

    /// The time that all events together stand for, in nanoseconds: from the first to when one
    /// more would be due.
    pub(super) fn span(&self) -> u64 {
        self.due(self.length)
    }
}

impl Pace {
    /// So many events in so many nanoseconds.
    fn ratio(self) -> Outcome<(u64, u64)> {
        match self {
            Self::Rate(rate) if (1.0 / THOUSANDTHS..=RATE_MAX).contains(&rate) => Ok((
                (rate * THOUSANDTHS).round() as u64,
                NANOS_OF_THOUSAND_SECONDS,
            )),
            Self::Rate(rate) => Err(Failure::new(format!(
                "a rate of {rate} events a second cannot be kept: give one from 0.001 to \
                 1000000000"
            ))),
            Self::Senders { senders, interval } => {
                let nanos = u64::try_from(interval.as_nanos()).unwrap_or(0);
                if senders == 0 || nanos < u64::from(senders) {
                    return Err(Failure::new(format!(
                        "{senders} senders every {interval:?} are no rate that can be kept: give \
                         one sender or more, and a longer --interval"
                    )));
                }
                Ok((senders.into(), nanos))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn endless(pace: Pace) -> Schedule {
        Schedule::new(pace, None, None).unwrap()
    }

    #[test]
    fn events_due_are_rate_times_time() {
        let schedule = endless(Pace::Rate(16_666.0));
        for seconds in [1, 60, 86_400, 31_536_000] {
            let before = seconds * 1_000_000_000 - 1;
            assert_eq!(schedule.due_by(before), 16_666 * seconds);
        }
        let minute = Some(Duration::from_secs(60));
        let schedule = Schedule::new(Pace::Rate(16_666.0), minute, None).unwrap();
        assert_eq!(schedule.length(), 999_960);
        assert_eq!(schedule.span(), 60_000_000_000);
    }

    #[test]
    fn senders_are_a_rate() {
        let pace = Pace::Senders {
            senders: 1000,
            interval: Duration::from_millis(60),
        };
        let schedule = Schedule::new(pace, Some(Duration::from_secs(6)), None).unwrap();
        assert_eq!(schedule.length(), 100_000);
        assert!((schedule.rate() - 16_666.666).abs() < 0.001);
        // One sender's events are exactly an interval apart.
        assert_eq!(schedule.due(1000 + 7) - schedule.due(7), 60_000_000);
    }

    #[test]
    fn what_comes_first_ends_it() {
        let of = |duration, count| {
            let duration = Some(Duration::from_secs(duration));
            Schedule::new(Pace::Rate(10.0), duration, Some(count))
                .unwrap()
                .length()
        };
        assert_eq!((of(1, 100), of(100, 7)), (10, 7));
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e10] {
            assert!(
                Schedule::new(Pace::Rate(rate), None, None).is_err(),
                "{rate}"
            );
        }
        for (senders, nanos) in [(0, 1000), (1, 0), (1001, 1000)] {
            let interval = Duration::from_nanos(nanos);
            let pace = Pace::Senders { senders, interval };
            assert!(Schedule::new(pace, None, None).is_err());
        }
        assert!(Schedule::new(Pace::Rate(1.0), None, Some(0)).is_err());
        assert!(Schedule::new(Pace::Rate(1.0), Some(Duration::ZERO), None).is_err());
    }

    proptest! {
        #[test]
        fn an_event_is_among_those_due_from_its_time_on(
            thousandths in 1u64..2_000_000_000,
            index in 0u64..1_000_000_000,
        ) {
            let schedule = endless(Pace::Rate(thousandths as f64 / 1000.0));
            let due = schedule.due(index);
            prop_assert!(schedule.due_by(due) > index);
            prop_assert!(due == 0 || schedule.due_by(due - 1) <= index);
        }
    }
}
