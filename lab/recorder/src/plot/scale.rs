//! Scales of axes: their end, ticks and labels.

use super::Unit;

/// Scale from zero to `top`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    /// Upper end.
    pub(super) top: f64,
    /// Values of the ticks, including zero.
    pub(super) ticks: Vec<f64>,
    /// Divisor of the labels.
    factor: f64,
    /// Decimals of the labels.
    decimals: usize,
    /// Unit with its prefix, as text.
    pub(super) unit: String,
}

impl Scale {
    /// Creates a scale that reaches just above `most`, with about `count` ticks.
    pub(super) fn of(unit: Unit, most: f64, count: usize) -> Self {
        let most = if most > 0.0 { most } else { 1.0 };
        let mut step = step(most / count as f64);
        if unit == Unit::Count {
            // Half a connection does not exist.
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
            unit: unit_text(unit, prefix),
        }
    }

    /// Returns the label of a tick.
    pub(super) fn label(&self, tick: f64) -> String {
        let scaled = tick / self.factor;
        if self.decimals == 0 && scaled < 1e15 {
            return machine::humanize::count(scaled.round() as u64);
        }
        format!("{scaled:.*}", self.decimals)
    }
}

/// Returns the next round number from `least` up: 1, 2, 2.5 or 5 times a power of ten.
fn step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let rounds = [1.0, 2.0, 2.5, 5.0, 10.0].map(|round| round * power);
    let next = rounds
        .into_iter()
        .find(|&round| round >= least * (1.0 - 1e-9));
    next.unwrap_or(10.0 * power)
}

/// Prefixes of units for powers of a thousand.
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
        // Counts are written out, with thousands separators.
        Unit::Count | Unit::PerSecond | Unit::Cores => factor <= 1.0,
        // A scale to 8,000 bytes is more precise than one to 8 kB.
        Unit::BytesEach if factor >= 1.0 => top >= factor * 100.0 || factor <= 1.0,
        _ if bytes => top >= factor || factor <= 1.0,
        _ => factor <= 1.0 && top >= factor,
    };
    PREFIXES.iter().find(fits).copied().unwrap_or((1.0, ""))
}

fn unit_text(unit: Unit, prefix: &str) -> String {
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

/// Returns the ticks of a time scale, the divisor of their labels, and the unit.
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
    // Ticks of minutes and hours divide an hour or a day; those of days and seconds are decimal.
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

    fn expect(unit: Unit, most: f64, ticks: &[&str], unit_text: &str) {
        let (found, unit) = labels(unit, most);
        assert_eq!(
            (found.as_slice(), unit.as_str()),
            (ticks.map_to().as_slice(), unit_text)
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
    fn ticks_of_minutes_and_hours_follow_the_clock() {
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
