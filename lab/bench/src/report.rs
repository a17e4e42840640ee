//! Results as a table for a terminal, as JSON, and as Markdown for `docs/BENCHMARKS.md`.

use std::fmt::Write as _;

use serde::Serialize;

use machine::host::HostInfo;

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
        }
    }

    /// Adds a value without a bound.
    pub fn figure(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.figures.push(Measurement {
            name: name.into(),
            value,
            unit,
            needed: None,
        });
    }

    /// Adds a value with a bound.
    pub fn bounded(
        &mut self,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        needed: Bound,
    ) {
        self.figures.push(Measurement {
            name: name.into(),
            value,
            unit,
            needed: Some(needed),
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
        let width = self
            .figures
            .iter()
            .map(|figure| figure.name.chars().count())
            .max();
        let width = width.unwrap_or(0);
        let mut out = format!("{}\n", self.title);
        for figure in &self.figures {
            let padding = " ".repeat(width - figure.name.chars().count());
            let value = number(figure.value);
            write!(
                out,
                "  {}{padding}  {value:>12} {}",
                figure.name, figure.unit
            )
            .expect("a string takes any text");
            if let Some(needed) = figure.needed {
                let verdict = if figure.met() == Some(true) {
                    "met"
                } else {
                    "MISSED"
                };
                write!(out, "  ({}: {verdict})", needed.describe())
                    .expect("a string takes any text");
            }
            out.push('\n');
        }
        for note in &self.notes {
            writeln!(out, "  {note}").expect("a string takes any text");
        }
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
            let value = number(figure.value);
            writeln!(
                out,
                "| {} | {value} {} | {asked} |",
                figure.name, figure.unit
            )
            .expect("a string takes any text");
        }
        for note in &self.notes {
            write!(out, "\n{note}\n").expect("a string takes any text");
        }
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
    let text = format!("{value:.digits$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut out = String::new();
    for (index, digit) in whole.chars().enumerate() {
        let left = whole.len() - index;
        if index > 0 && left % 3 == 0 && !out.ends_with('-') {
            out.push(',');
        }
        out.push(digit);
    }
    if fraction.is_empty() {
        out
    } else {
        format!("{out}.{fraction}")
    }
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
    std::iter::once(program)
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
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
        report.bounded("a session", 120.0, "bytes", Bound::AtMost(100.0));
        report.bounded("rate", 0.9, "of bare", Bound::AtLeast(0.8));
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
