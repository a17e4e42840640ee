//! Results as a table for a terminal, as JSON, and as Markdown for `docs/BENCHMARKS.md`.

use serde::Serialize;

use machine::host::HostInfo;
use machine::humanize::count;

/// One measured value.
#[derive(Debug, Clone, Serialize)]
pub struct Measurement {
    /// Name of the measurement.
    pub name: String,
    /// Measured value.
    pub value: f64,
    /// Unit of the value.
    pub unit: &'static str,
    /// Bound on the value, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed: Option<Bound>,
}

/// Bound on a measured value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

/// Results of one command on one machine.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Title of the benchmark.
    pub title: String,
    /// Command that repeats it.
    pub command: String,
    /// Machine of the benchmark.
    pub machine: HostInfo,
    /// Measurements in the order in which they were taken.
    pub figures: Vec<Measurement>,
    /// Notes that a reader of the results needs.
    pub notes: Vec<String>,
    /// What the names of the present part begin with.
    #[serde(skip)]
    prefix: String,
}

impl Report {
    /// Creates an empty report for this machine and command line.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            command: command_line(),
            machine: HostInfo::read(),
            figures: Vec::new(),
            notes: Vec::new(),
            prefix: String::new(),
        }
    }

    /// Begins a part: the names of the values that follow begin with `prefix`.
    pub fn part(&mut self, prefix: impl Into<String>) {
        self.prefix = prefix.into();
    }

    /// Adds a value without a bound.
    pub fn figure(&mut self, name: &str, value: f64, unit: &'static str) {
        self.add(name, value, unit, None);
    }

    /// Adds a value that should be no more than `bound`.
    pub fn at_most(&mut self, name: &str, value: f64, unit: &'static str, bound: f64) {
        self.add(name, value, unit, Some(Bound::AtMost(bound)));
    }

    /// Adds a value that should be no less than `bound`.
    pub fn at_least(&mut self, name: &str, value: f64, unit: &'static str, bound: f64) {
        self.add(name, value, unit, Some(Bound::AtLeast(bound)));
    }

    fn add(&mut self, name: &str, value: f64, unit: &'static str, needed: Option<Bound>) {
        let name = format!("{}{name}", self.prefix);
        self.figures.push(Measurement {
            name,
            value,
            unit,
            needed,
        });
    }

    /// Adds a note.
    pub fn note(&mut self, sentence: impl Into<String>) {
        self.notes.push(sentence.into());
    }

    /// Iterates over the measurements that miss their bound.
    pub fn missed(&self) -> impl Iterator<Item = &Measurement> {
        self.figures
            .iter()
            .filter(|figure| figure.met() == Some(false))
    }

    /// Formats a table for a terminal.
    pub fn table(&self) -> String {
        let width = |figure: &Measurement| figure.name.chars().count();
        let width = self.figures.iter().map(width).max().unwrap_or(0);
        let mut out = format!("{}\n", self.title);
        for figure in &self.figures {
            let (name, unit, value) = (&figure.name, figure.unit, number(figure.value));
            out += &format!("  {name:width$}  {value:>12} {unit}");
            if let Some(needed) = figure.needed {
                let is_met = figure.met() == Some(true);
                let verdict = if is_met { "met" } else { "MISSED" };
                out += &format!("  ({}: {verdict})", needed.describe());
            }
            out.push('\n');
        }
        out.extend(self.notes.iter().map(|note| format!("  {note}\n")));
        out
    }

    /// Formats a section of `docs/BENCHMARKS.md`.
    pub fn markdown(&self) -> String {
        let HostInfo {
            processor,
            cores,
            memory_gib,
            kernel,
            commit,
        } = &self.machine;
        let mut out = format!(
            "## {}\n\n{processor}, {cores} cores, {memory_gib} GiB, Linux {kernel}, commit \
             {commit}: `{}`\n\n| figure | measured | asked |\n|---|---:|---|\n",
            self.title, self.command
        );
        for figure in &self.figures {
            let asked = match figure.needed {
                Some(needed) if figure.met() == Some(true) => needed.describe(),
                Some(needed) => format!("{} (**missed**)", needed.describe()),
                None => String::new(),
            };
            let (name, unit, value) = (&figure.name, figure.unit, number(figure.value));
            out += &format!("| {name} | {value} {unit} | {asked} |\n");
        }
        out.extend(self.notes.iter().map(|note| format!("\n{note}\n")));
        out
    }
}

impl Measurement {
    fn met(&self) -> Option<bool> {
        self.needed.map(|needed| match needed {
            Bound::AtMost(bound) => self.value <= bound,
            Bound::AtLeast(bound) => self.value >= bound,
        })
    }
}

impl Bound {
    fn describe(self) -> String {
        match self {
            Self::AtMost(bound) => format!("at most {}", number(bound)),
            Self::AtLeast(bound) => format!("at least {}", number(bound)),
        }
    }
}

/// Formats a number with about three significant digits and thousands separators.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let digits = match value.abs() {
        0.0 => 0,
        size if size < 1.0 => 3,
        size if size < 10.0 => 2,
        size if size < 100.0 => 1,
        _ => 0,
    };
    let text = format!("{:.digits$}", value.abs());
    let sign = if value < 0.0 { "-" } else { "" };
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, format!(".{fraction}")),
        None => (&text[..], String::new()),
    };
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), count);
    format!("{sign}{whole}{fraction}")
}

fn command_line() -> String {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default().to_owned();
    // Strip directories, which depend on the build machine.
    let words = words.map(|word| match word.rsplit_once('/') {
        Some((_, name)) if word.starts_with('/') => name.to_owned(),
        _ => word,
    });
    let words: Vec<String> = std::iter::once(program).chain(words).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_readable() {
        let texts = [
            0.0,
            0.1234,
            4.567,
            45.67,
            456.7,
            37_123.4,
            1_000_000.0,
            -1234.0,
        ]
        .map(number);
        let expected = [
            "0",
            "0.123",
            "4.57",
            "45.7",
            "457",
            "37,123",
            "1,000,000",
            "-1,234",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn every_format_marks_a_missed_bound() {
        let mut report = Report::new("Memory");
        report.at_most("a session", 120.0, "bytes", 100.0);
        report.at_least("rate", 0.9, "of bare", 0.8);
        assert_eq!(report.missed().count(), 1);
        assert!(report.table().contains("(at most 100: MISSED)"));
        assert!(
            report
                .markdown()
                .contains("| a session | 120 bytes | at most 100 (**missed**) |")
        );
        assert!(
            report
                .markdown()
                .contains("| rate | 0.900 of bare | at least 0.800 |")
        );
    }
}
