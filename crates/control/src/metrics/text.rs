//! Metrics as text, in one of two formats of Prometheus.
//!
//! Sources: OpenMetrics 1.0; Prometheus, "Exposition formats", text format 0.0.4. The older format
//! describes a counter and a constant under the names of their samples, and nothing says that the
//! text is whole. Must never write a name twice: each metric is described by one call.

use std::fmt::{Display, Write};

use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::response::{IntoResponse, Response};
use reactor::Latencies;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What each metric means: a line each, the name before a colon. Metrics of workers are described
/// where they are counted.
const HELP: &str = include_str!("help.txt");

/// Returns what a metric means, if [`HELP`] has a line for it.
fn help_of(name: &str) -> Option<&'static str> {
    let mut lines = HELP.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
    /// A constant 1, with labels.
    Info,
}

/// Text of the metrics of one scrape.
#[derive(Debug)]
pub(crate) struct Text {
    text: String,
    is_plain: bool,
    /// What all names begin with.
    prefix: &'static str,
}

/// Samples of one metric.
pub(crate) struct Samples<'a> {
    text: &'a mut String,
    prefix: &'static str,
    name: &'a str,
    kind: Kind,
}

/// Value of a sample: a whole number, or one that is written with a fraction, if only `.0`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value {
    Whole(u64),
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Whole(value) => value.fmt(f),
            Self::Real(f64::INFINITY) => f.write_str("+Inf"),
            Self::Real(value) if value != 0.0 && !(1e-6..1e21).contains(&value.abs()) => {
                write!(f, "{value:e}")
            }
            Self::Real(value) if value.fract() == 0.0 => write!(f, "{value}.0"),
            Self::Real(value) => value.fmt(f),
        }
    }
}

impl Text {
    /// Begins the text in the format that a reader accepts: OpenMetrics, unless it asks for the
    /// older format alone.
    pub(crate) fn new(fields: &HeaderMap) -> Self {
        let accept = fields.get(ACCEPT).and_then(|field| field.to_str().ok());
        Self {
            text: String::new(),
            is_plain: accept.is_some_and(wants_plain),
            prefix: "",
        }
    }

    /// Begins all names from now on with this.
    pub(crate) const fn prefix(&mut self, prefix: &'static str) {
        self.prefix = prefix;
    }

    /// Describes a metric, whose samples follow.
    pub(crate) fn metric<'a>(&'a mut self, kind: Kind, name: &'a str, help: &str) -> Samples<'a> {
        let (word, suffix) = match (kind, self.is_plain) {
            (Kind::Counter, false) => ("counter", ""),
            (Kind::Counter, true) => ("counter", "_total"),
            (Kind::Gauge, _) => ("gauge", ""),
            (Kind::Histogram, _) => ("histogram", ""),
            (Kind::Info, false) => ("info", ""),
            (Kind::Info, true) => ("gauge", "_info"),
        };
        let Self { text, prefix, .. } = self;
        put(text, format_args!("# HELP {prefix}{name}{suffix} {help}\n"));
        put(text, format_args!("# TYPE {prefix}{name}{suffix} {word}\n"));
        Samples {
            text,
            prefix,
            name,
            kind,
        }
    }

    /// Describes a metric of [`HELP`], whose samples follow.
    pub(crate) fn known<'a>(&'a mut self, kind: Kind, name: &'a str) -> Samples<'a> {
        // A test finds a name without a line; a scrape must not end the server.
        self.metric(kind, name, help_of(name).unwrap_or_default())
    }

    /// Writes a gauge.
    pub(crate) fn gauge(&mut self, name: &str, value: f64) {
        self.known(Kind::Gauge, name).sample(&[], value);
    }

    /// Writes a gauge that is 1 or 0.
    pub(crate) fn flag(&mut self, name: &str, value: bool) {
        self.gauge(name, f64::from(u8::from(value)));
    }

    /// Writes a counter.
    pub(crate) fn counter(&mut self, name: &str, value: impl Into<Value>) {
        self.known(Kind::Counter, name).sample(&[], value);
    }

    /// Writes a counter with a value for each value of a label.
    pub(crate) fn counters<'a>(
        &mut self,
        name: &str,
        label: &str,
        counts: impl IntoIterator<Item = (&'a str, u64)>,
    ) {
        let mut samples = self.known(Kind::Counter, name);
        for (value, count) in counts {
            samples.sample(&[(label, value)], count);
        }
    }

    /// Writes a histogram of latencies.
    pub(crate) fn latency(&mut self, name: &str, latencies: &Latencies) {
        let sum = latencies.sum().as_secs_f64();
        let mut samples = self.known(Kind::Histogram, name);
        samples.histogram(sum, latencies.buckets());
    }

    /// Returns the answer with the whole text.
    pub(crate) fn into_response(mut self) -> Response {
        let content_type = match self.is_plain {
            true => PLAIN,
            false => {
                self.text.push_str("# EOF\n");
                OPEN_METRICS
            }
        };
        let fields = [(CONTENT_TYPE, content_type), (VARY, "Accept")];
        (fields, self.text).into_response()
    }
}

impl Samples<'_> {
    /// Writes a sample with labels.
    pub(crate) fn sample(&mut self, labels: &[(&str, &str)], value: impl Into<Value>) {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        self.line(suffix, labels, value.into());
    }

    /// Writes a histogram of buckets: the upper bound of each, in their order, and how many values
    /// are in it alone. The last bound is infinite.
    pub(crate) fn histogram(&mut self, sum: f64, buckets: impl Iterator<Item = (f64, u64)>) {
        let buckets: Vec<_> = buckets.collect();
        self.line("_sum", &[], sum.into());
        let count: u64 = buckets.iter().map(|(_, count)| count).sum();
        self.line("_count", &[], count.into());
        let mut up_to = 0;
        for (bound, count) in buckets {
            up_to += count;
            let bound = Value::Real(bound).to_string();
            self.line("_bucket", &[("le", &bound)], up_to.into());
        }
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: Value) {
        let Self {
            text, prefix, name, ..
        } = self;
        put(text, format_args!("{prefix}{name}{suffix}"));
        for (number, (label, value)) in labels.iter().enumerate() {
            text.push(if number == 0 { '{' } else { ',' });
            let value = Escaped(value);
            put(text, format_args!("{label}=\"{value}\""));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        put(text, format_args!("{end} {value}\n"));
    }
}

/// Value of a label, as it stands between quotation marks.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                _ => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}

fn put(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("a string takes all");
}

/// Returns whether a reader that accepts `accept` asks for the older format and not for
/// OpenMetrics.
fn wants_plain(accept: &str) -> bool {
    let mut types = accept.split(',').map(|range| match range.split_once(';') {
        Some((name, _)) => name.trim(),
        None => range.trim(),
    });
    let mut names_plain = false;
    let names_open = types.any(|name| {
        names_plain |= name == "text/plain";
        name == "application/openmetrics-text"
    });
    names_plain && !names_open
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where metrics of [`HELP`] are written.
    const WRITERS: [&str; 5] = [
        include_str!("../metrics.rs"),
        include_str!("listener.rs"),
        include_str!("process.rs"),
        include_str!("../run.rs"),
        include_str!("../admin.rs"),
    ];

    #[test]
    fn each_metric_has_a_help_text_and_each_help_text_a_metric() {
        let mut found = 0;
        for method in [
            "gauge(",
            "flag(",
            "counter(",
            "counters(",
            "latency(",
            "known(",
        ] {
            let calls = WRITERS
                .iter()
                .flat_map(|source| source.split(method).skip(1));
            for call in calls {
                let call = call.trim_start();
                let name = call.strip_prefix("Kind::").map_or(call, |kind| {
                    kind.split_once(',')
                        .map_or("", |(_, rest)| rest.trim_start())
                });
                let Some((name, _)) = name.strip_prefix('"').and_then(|it| it.split_once('"'))
                else {
                    continue;
                };
                found += 1;
                assert!(help_of(name).is_some_and(|help| !help.is_empty()), "{name}");
            }
        }
        assert!(found > 70, "{found} metrics are found in the sources");
        for line in HELP.lines() {
            let (name, _) = line.split_once(": ").unwrap_or_else(|| panic!("{line}"));
            let quoted = format!("\"{name}\"");
            let is_written = WRITERS.iter().any(|source| source.contains(&quoted));
            assert!(is_written, "no metric has the name {name}");
        }
    }

    fn written(is_plain: bool) -> String {
        let mut text = Text {
            text: String::new(),
            is_plain,
            prefix: "a_",
        };
        let mut info = text.metric(Kind::Info, "build", "What runs.");
        info.sample(&[("v", "1"), ("w", "\"\\\n")], 1);
        text.metric(Kind::Counter, "bytes", "Read.").sample(&[], 3);
        text.metric(Kind::Counter, "seconds", "Read.")
            .sample(&[], 3.0);
        text.metric(Kind::Gauge, "now", "Of now.").sample(&[], 1.5);
        let mut lines = text.metric(Kind::Counter, "lines", "Written.");
        lines.sample(&[("of", "b")], 1);
        lines.sample(&[("of", "c")], 2);
        let mut sizes = text.metric(Kind::Histogram, "size", "Sizes.");
        sizes.histogram(3.0, [(0.5, 2), (f64::INFINITY, 1)].into_iter());
        text.text
    }

    #[test]
    fn descriptions_have_the_names_that_the_format_asks_for() {
        let open_metrics = "\
# HELP a_build What runs.\n# TYPE a_build info\na_build_info{v=\"1\",w=\"\\\"\\\\\\n\"} 1\n\
# HELP a_bytes Read.\n# TYPE a_bytes counter\na_bytes_total 3\n\
# HELP a_seconds Read.\n# TYPE a_seconds counter\na_seconds_total 3.0\n\
# HELP a_now Of now.\n# TYPE a_now gauge\na_now 1.5\n\
# HELP a_lines Written.\n# TYPE a_lines counter\na_lines_total{of=\"b\"} 1\n\
a_lines_total{of=\"c\"} 2\n\
# HELP a_size Sizes.\n# TYPE a_size histogram\na_size_sum 3.0\na_size_count 3\n\
a_size_bucket{le=\"0.5\"} 2\na_size_bucket{le=\"+Inf\"} 3\n";
        assert_eq!(written(false), open_metrics);
        let plain = open_metrics
            .replace("a_build What", "a_build_info What")
            .replace("a_build info", "a_build_info gauge")
            .replace("a_bytes Read", "a_bytes_total Read")
            .replace("a_bytes counter", "a_bytes_total counter")
            .replace("a_seconds Read", "a_seconds_total Read")
            .replace("a_seconds counter", "a_seconds_total counter")
            .replace("a_lines Written", "a_lines_total Written")
            .replace("a_lines counter", "a_lines_total counter");
        assert_eq!(written(true), plain);
    }

    #[test]
    fn numbers_are_short_and_have_a_fraction() {
        for (number, text) in [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (0.00005, "0.00005"),
            (0.000_001, "0.000001"),
            (1.5e-8, "1.5e-8"),
            (1e20, "100000000000000000000.0"),
            (1e21, "1e21"),
            (1_700_000_000.25, "1700000000.25"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(Value::Real(number).to_string(), text);
        }
    }

    #[test]
    fn open_metrics_are_given_unless_plain_text_alone_is_asked_for() {
        for (accept, wanted) in [
            ("", false),
            ("*/*", false),
            ("text/plain", true),
            ("text/plain;version=0.0.4;q=0.5, */*;q=0.1", true),
            ("text/html, text/plainer", false),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4",
                false,
            ),
        ] {
            assert_eq!(wants_plain(accept), wanted, "{accept}");
        }
    }
}
