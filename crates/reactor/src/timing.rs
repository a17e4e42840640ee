//! Time spent by a worker: waiting, working, and by stage of work.
//!
//! Must never add a reading of the clock to a turn for telling waiting from work. Stages would cost
//! a reading each, so only a sample of the turns is timed by stage, and the others are
//! extrapolated.
//!
//! The sum of the stages is an unbiased estimate of the busy time. Turns after a rest of a
//! millisecond or more add no error; of the others, the standard deviation of the sum is at most
//! `sqrt(32 * the sum of the squares of their times)`: for `n` turns of equal length
//! `5.7 / sqrt(n)` of their time.

use std::time::Duration;

use crate::metrics::{Count, MetricSet};

/// Turns without a rest between them for each one that is timed by stage, so that the readings of
/// the clock cost a turn only a fraction of one.
const TURNS_PER_TIMED: u32 = 32;
const _: () = assert!(TURNS_PER_TIMED.is_power_of_two());

/// Wait after which a turn is always timed. There cannot be more than a thousand such turns a
/// second.
const REST: Duration = Duration::from_millis(1);

/// Time account of a worker. Lives as long as the worker.
#[derive(Debug, Default)]
pub struct Timing {
    /// Time up to which everything is counted.
    counted: Duration,
    /// Whether the worker has been waiting since then.
    resting: bool,
    /// Number of turns that this one stands for; zero if its stages are not timed.
    weight: u32,
    /// Start of the current stage.
    begun: Duration,
    /// State of the random number generator.
    state: u32,
}

impl Timing {
    /// Marks the start of a wait that may block.
    pub fn rest(&mut self, now: Duration, counters: &impl Count) {
        self.count(now, counters);
        self.resting = true;
    }

    /// Marks the start of a turn, after a poll that returned `events`. Without a
    /// [`rest`](Self::rest) before it, the poll counts as work.
    pub fn begin(&mut self, now: Duration, events: usize, counters: &impl Count) {
        counters.polled(events);
        let rested = self.resting && now.saturating_sub(self.counted) >= REST;
        self.count(now, counters);
        self.begun = now;
        // Whether a turn is timed depends only on what came before it, and a timed turn stands for
        // as many turns as it was drawn from, so the sum over timed turns is right on average.
        self.weight = match rested {
            true => 1,
            false if self.draw() => TURNS_PER_TIMED,
            false => 0,
        };
    }

    /// Returns whether the stages of this turn are timed.
    pub const fn is_timed(&self) -> bool {
        self.weight != 0
    }

    /// Marks the end of a stage.
    pub fn passed<C: Count>(
        &mut self,
        stage: C::Metric,
        clock: impl FnOnce() -> Duration,
        counters: &C,
    ) {
        if !self.is_timed() {
            return;
        }
        let now = clock();
        counters.add_time(stage, now.saturating_sub(self.begun) * self.weight);
        self.begun = now;
    }

    fn count<C: Count>(&mut self, now: Duration, counters: &C) {
        let metric = if self.resting {
            C::Metric::WAITING
        } else {
            C::Metric::BUSY
        };
        counters.add_time(metric, now.saturating_sub(self.counted));
        self.counted = now;
        self.resting = false;
    }

    /// Returns true once in [`TURNS_PER_TIMED`] times at random, so that no rhythm of the turns
    /// biases the sample (linear congruential; its upper bits are its best).
    const fn draw(&mut self) -> bool {
        self.state = self
            .state
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        self.state >> (u32::BITS - TURNS_PER_TIMED.trailing_zeros()) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Counters;

    crate::metrics! {
        /// What a worker of the tests counts.
        enum Metric {
            Counter "accepts" [] "Accepts." { Accepts }
            Counter "accept_pauses" [] "Pauses." { AcceptPauses }
            Time "stage_seconds" ["stage"] "Busy time." {
                StageAccept = "accept", StageSignals = "signals",
                StageFanOut = "fan_out", StageMail = "mail",
            }
        }
    }

    type Stats = Counters<Metric, { Metric::ALL.len() }>;

    const fn micros(count: u64) -> Duration {
        Duration::from_micros(count)
    }

    fn told(stats: &Stats, metric: Metric) -> Duration {
        Duration::from_nanos(stats.get(metric))
    }

    #[test]
    fn all_time_is_either_waited_or_worked() {
        let (mut timing, stats) = (Timing::default(), Stats::default());
        timing.rest(micros(10), &stats);
        timing.begin(micros(30), 1, &stats);
        // Busy turns have no rest between them.
        timing.begin(micros(45), 1, &stats);
        timing.begin(micros(50), 1, &stats);
        timing.rest(micros(57), &stats);
        timing.begin(micros(157), 1, &stats);
        assert_eq!(told(&stats, Metric::Waiting), micros(20 + 100));
        assert_eq!(told(&stats, Metric::Busy), micros(10 + 15 + 5 + 7));
    }

    #[test]
    fn a_turn_after_a_rest_is_timed_exactly() {
        let (mut timing, stats) = (Timing::default(), Stats::default());
        let mut now = Duration::ZERO;
        let mut pass = |time| {
            now += time;
            now
        };
        for _ in 0..100 {
            timing.rest(pass(micros(1)), &stats);
            timing.begin(pass(REST), 1, &stats);
            timing.passed(Metric::StageSignals, || pass(micros(1)), &stats);
            timing.passed(Metric::StageFanOut, || pass(micros(7)), &stats);
        }
        assert_eq!(told(&stats, Metric::StageSignals), micros(100));
        assert_eq!(told(&stats, Metric::StageFanOut), micros(700));
        assert_eq!(told(&stats, Metric::StageMail), micros(0));
    }

    /// A turn of `time` in two stages, after a wait of `wait`.
    fn turn(
        timing: &mut Timing,
        stats: &Stats,
        now: &mut Duration,
        wait: Duration,
        time: Duration,
    ) {
        if !wait.is_zero() {
            timing.rest(*now, stats);
            *now += wait;
        }
        timing.begin(*now, 1, stats);
        *now += time / 4;
        timing.passed(Metric::StageSignals, || *now, stats);
        *now += time - time / 4;
        timing.passed(Metric::StageFanOut, || *now, stats);
    }

    #[test]
    fn stages_add_up_to_busy_within_four_standard_deviations_of_the_sample() {
        // The bound that `docs/LAB.md` states. Turns alike, turns of which few are long, and those
        // of a server that is idle now and then.
        type Pattern = fn(u32) -> (Duration, Duration);
        let patterns: [Pattern; 4] = [
            |_| (Duration::ZERO, micros(20)),
            |turn| {
                (
                    Duration::ZERO,
                    micros(if turn % 50 == 7 { 3_000 } else { 15 }),
                )
            },
            |turn| {
                (
                    micros(u64::from(turn % 4) * 600),
                    micros(10 + u64::from(turn % 100)),
                )
            },
            |turn| (REST * (turn % 2), micros(1 + u64::from(turn * 7 % 400))),
        ];
        for (number, pattern) in patterns.into_iter().enumerate() {
            let (mut timing, mut now) = (Timing::default(), Duration::ZERO);
            let (mut sums, mut deviations) = (0.0, 0.0);
            for run in 0..100 {
                let stats = Stats::default();
                let (mut busy, mut squares) = (0.0, 0.0);
                for count in 0..4_000 {
                    let (wait, time) = pattern(count);
                    turn(&mut timing, &stats, &mut now, wait, time);
                    busy += time.as_secs_f64();
                    if wait < REST {
                        squares += time.as_secs_f64().powi(2);
                    }
                }
                timing.rest(now, &stats);
                let stages = told(&stats, Metric::StageSignals) + told(&stats, Metric::StageFanOut);
                assert!((told(&stats, Metric::Busy).as_secs_f64() / busy - 1.0).abs() < 1e-6);
                let error = stages.as_secs_f64() - busy;
                let bound = 4.0 * (f64::from(TURNS_PER_TIMED) * squares).sqrt();
                assert!(
                    error.abs() <= bound,
                    "{number}, {run}: {error} of {busy}, {bound}"
                );
                sums += error;
                deviations += f64::from(TURNS_PER_TIMED) * squares;
            }
            // And no error remains over all runs: the estimate has no bias.
            assert!(
                sums.abs() <= 4.0 * f64::sqrt(deviations),
                "{number}: {sums}"
            );
        }
    }

    #[test]
    fn stages_of_a_worker_that_rests_between_its_turns_add_up_to_busy_exactly() {
        let (mut timing, stats) = (Timing::default(), Stats::default());
        let mut now = Duration::ZERO;
        for count in 0..1_000 {
            turn(
                &mut timing,
                &stats,
                &mut now,
                REST,
                micros(4 * (1 + count % 700)),
            );
        }
        timing.rest(now, &stats);
        let stages = told(&stats, Metric::StageSignals) + told(&stats, Metric::StageFanOut);
        assert_eq!(stages, told(&stats, Metric::Busy));
    }

    #[test]
    fn timed_turns_stand_for_those_that_are_not() {
        let (mut timing, stats) = (Timing::default(), Stats::default());
        let mut now = Duration::ZERO;
        let mut spent = [Duration::ZERO; 2];
        let mut readings = 0;
        for turn in 0..320_000 {
            timing.begin(now, 1, &stats);
            // One turn in 64 is long: a stride of 32 would meet all of them twice as often, or
            // none.
            let long = micros(if turn % 64 == 63 { 5_000 } else { 10 });
            for (at, (stage, time)) in [
                (Metric::StageSignals, micros(3)),
                (Metric::StageFanOut, long),
            ]
            .into_iter()
            .enumerate()
            {
                now += time;
                spent[at] += time;
                let clock = || {
                    readings += 1;
                    now
                };
                timing.passed(stage, clock, &stats);
            }
        }
        for (stage, spent) in [Metric::StageSignals, Metric::StageFanOut]
            .into_iter()
            .zip(spent)
        {
            let share = told(&stats, stage).as_secs_f64() / spent.as_secs_f64();
            assert!(
                (0.9..1.1).contains(&share),
                "{stage:?}: {share} of {spent:?}"
            );
        }
        assert!((18_000..22_000).contains(&readings), "{readings}");
    }
}
