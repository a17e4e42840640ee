//! Scales: how high they reach, where their ticks are, and what is written there.

use super::Unit;

/// A scale from nought to `top`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    /// The upper end.
    pub(super) top: f64,
    /// Places of ticks, nought among them.
    pub(super) ticks: Vec<f64>,
    /// What a tick is divided by before it is written.
    factor: f64,
    /// Decimals of a tick's label.
    decimals: usize,
    /// The unit, in words, with its prefix.
    pub(super) unit: String,
}

impl Scale {
    /// A scale on which `most` is high up, with about `count` ticks.
    pub(super) fn of(unit: Unit, most: f64, count: usize) -> Self {
        let most = if most > 0.0 { most } else { 1.0 };
        let mut step = step(most / count as f64);
        if unit == Unit::Count {
            // There is no half of a connection.
            step = step.max(1.0);
        }
        let top = (most / step).ceil() * step;
        let (factor, prefix) = prefix(unit, top);
        let ticks = (0..=(top / step).round() as u32)
            .map(|number| f64::from(number) * step)
            .collect();
        let decimals = (-(step / factor).log10().floor()).max(0.0) as usize;
        // A step of 2.5 needs one decimal more than one of 2.
        let fits = |decimals: usize| {
            let scaled = step / factor * 10_f64.powi(decimals as i32);
            (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0)
        };
        let decimals = (decimals..decimals + 2).find(|&decimals| fits(decimals));
        Self {
            top,
            ticks,
            factor,
            decimals: decimals.unwrap_or(2),
            unit: words(unit, prefix),
        }
    }

    /// What is written at a tick.
    pub(super) fn label(&self, tick: f64) -> String {
        let scaled = tick / self.factor;
        if self.decimals == 0 && scaled < 1e15 {
            return crate::humanize::count(scaled.round() as u64);
        }
        format!("{scaled:.*}", self.decimals)
    }
}

/// The round number next above `least`: 1, 2, 2.5 or 5 times a power of ten.
fn step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let rounds = [1.0, 2.0, 2.5, 5.0, 10.0].map(|round| round * power);
    let next = rounds
        .into_iter()
        .find(|&round| round >= least * (1.0 - 1e-9));
    next.unwrap_or(10.0 * power)
}

/// Powers of a thousand, as they are written before a unit.
const PREFIXES: [(f64, &str); 7] = [
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "\u{b5}"),
];

fn prefix(unit: Unit, top: f64) -> (f64, &'static str) {
    let bytes = matches!(unit, Unit::Bytes | Unit::BytesEach | Unit::BytesPerSecond);
    let fits = |&&(factor, _): &&(f64, &str)| match unit {
        // Counts are written out, with their thousands apart.
        Unit::Count | Unit::PerSecond | Unit::Cores => factor <= 1.0,
        // A scale to 8,000 bytes says more than one to 8 kB.
        Unit::BytesEach if factor >= 1.0 => top >= factor * 100.0 || factor <= 1.0,
        _ if bytes => top >= factor || factor <= 1.0,
        _ => factor <= 1.0 && top >= factor,
    };
    PREFIXES.iter().find(fits).copied().unwrap_or((1.0, ""))
}

fn words(unit: Unit, prefix: &str) -> String {
    match (unit, prefix) {
        (Unit::Bytes, "") => "bytes".to_owned(),
        (Unit::Bytes, _) => format!("{prefix}B"),
        (Unit::BytesEach, "") => "bytes a connection".to_owned(),
        (Unit::BytesEach, _) => format!("{prefix}B a connection"),
        (Unit::BytesPerSecond, "") => "bytes/s".to_owned(),
        (Unit::BytesPerSecond, _) => format!("{prefix}B/s"),
        (Unit::Seconds, _) => format!("{prefix}s"),
        (Unit::PerSecond, _) => "a second".to_owned(),
        (Unit::Cores, _) => "cores".to_owned(),
        (Unit::Count, _) => String::new(),
    }
}

/// Ticks of a scale of time, what they are divided by, and the unit's name.
pub(super) fn time(span: f64, count: usize) -> (Vec<f64>, f64, &'static str) {
    const MINUTE: f64 = 60.0;
    const HOUR: f64 = 60.0 * MINUTE;
    const DAY: f64 = 24.0 * HOUR;
    let (factor, unit) = match span {
        _ if span >= 2.0 * DAY => (DAY, "days"),
        _ if span >= 2.0 * HOUR => (HOUR, "h"),
        _ if span >= 3.0 * MINUTE => (MINUTE, "min"),
        _ => (1.0, "s"),
    };
    let least = span / factor / count as f64;
    // Minutes and hours are counted by the clock, days and seconds by tens.
    let clock = [1.0, 2.0, 3.0, 5.0, 6.0, 10.0, 12.0, 15.0, 20.0, 30.0];
    let by_clock = clock.into_iter().find(|&round| round >= least);
    let chosen = match by_clock {
        Some(round) if factor == MINUTE || factor == HOUR => round,
        _ => step(least),
    };
    let most = (span / factor / chosen + 1e-9).floor() as u32;
    let ticks = (0..=most).map(|number| f64::from(number) * chosen * factor);
    (ticks.collect(), factor, unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(unit: Unit, most: f64) -> (Vec<String>, String) {
        let scale = Scale::of(unit, most, 4);
        assert!(
            scale.top >= most && scale.top <= most.max(1.0) * 2.0,
            "{scale:?}"
        );
        let labels = scale.ticks.iter().map(|&tick| scale.label(tick));
        (labels.collect(), scale.unit.clone())
    }

    fn expect(unit: Unit, most: f64, ticks: &[&str], words: &str) {
        let (found, unit) = labels(unit, most);
        assert_eq!(
            (found.as_slice(), unit.as_str()),
            (ticks.map_to().as_slice(), words)
        );
    }

    trait Owned {
        fn map_to(&self) -> Vec<String>;
    }

    impl Owned for &[&str] {
        fn map_to(&self) -> Vec<String> {
            self.iter().map(|&tick| tick.to_owned()).collect()
        }
    }

    #[test]
    fn ticks_are_round_and_units_fit() {
        expect(Unit::Bytes, 52.6e6, &["0", "20", "40", "60"], "MB");
        expect(
            Unit::Bytes,
            9.1e9,
            &["0.0", "2.5", "5.0", "7.5", "10.0"],
            "GB",
        );
        expect(
            Unit::BytesEach,
            8_360.0,
            &["0", "2,500", "5,000", "7,500", "10,000"],
            "bytes a connection",
        );
        expect(
            Unit::Count,
            1e6,
            &["0", "250,000", "500,000", "750,000", "1,000,000"],
            "",
        );
        expect(Unit::Count, 3.0, &["0", "1", "2", "3"], "");
        expect(
            Unit::Cores,
            1.7,
            &["0.0", "0.5", "1.0", "1.5", "2.0"],
            "cores",
        );
        expect(Unit::Seconds, 0.0031, &["0", "1", "2", "3", "4"], "ms");
        expect(
            Unit::Bytes,
            0.0,
            &["0.00", "0.25", "0.50", "0.75", "1.00"],
            "bytes",
        );
    }

    #[test]
    fn time_is_counted_by_the_clock() {
        let ticks = |span| {
            let (ticks, factor, unit) = time(span, 8);
            let ticks: Vec<f64> = ticks.iter().map(|tick| tick / factor).collect();
            (ticks[1], *ticks.last().unwrap(), unit)
        };
        assert_eq!(ticks(10.0), (2.0, 10.0, "s"));
        assert_eq!(ticks(600.0), (2.0, 10.0, "min"));
        assert_eq!(ticks(86_400.0), (3.0, 24.0, "h"));
        assert_eq!(ticks(7.0 * 86_400.0), (1.0, 7.0, "days"));
    }
}
