//! Metrics in the older text format of Prometheus, for readers that ask for it.
//!
//! Source: Prometheus, "Exposition formats", text format 0.0.4. It differs from OpenMetrics in the
//! lines that begin with `#`: a counter and a constant are described under the names of their
//! samples, there are no units, and nothing says that the text is whole.

/// Media type of the format.
pub(super) const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns whether a reader that accepts `accept` asks for this format and not for OpenMetrics.
pub(super) fn is_wanted(accept: &str) -> bool {
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

/// Converts OpenMetrics text. A description comes before its type there, and is written with the
/// name that the type asks for.
pub(super) fn converted(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + 1024);
    let mut help = None;
    for line in open_metrics.lines() {
        match line.split_once(' ') {
            Some(("#", comment)) => match comment.split_once(' ') {
                Some(("HELP", described)) => help = described.split_once(' '),
                Some(("TYPE", typed)) => {
                    let (name, kind) = typed.split_once(' ').unwrap_or((typed, "untyped"));
                    let (suffix, kind) = match kind {
                        "counter" => ("_total", kind),
                        "info" => ("_info", "gauge"),
                        "unknown" => ("", "untyped"),
                        kind => ("", kind),
                    };
                    if let Some((_, help)) = help.take().filter(|(of, _)| *of == name) {
                        text.push_str(&format!("# HELP {name}{suffix} {help}\n"));
                    }
                    text.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
                }
                _ => {}
            },
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_have_the_names_of_their_samples() {
        let open_metrics = "\
# HELP a_build What runs.\n# TYPE a_build info\na_build_info{v=\"1\"} 1\n\
# HELP a_bytes Read.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\na_bytes_total 3\n\
# HELP a_now Of now.\n# TYPE a_now gauge\na_now 1.5\n\
# HELP a_size Sizes.\n# TYPE a_size histogram\na_size_sum 3.0\na_size_count 1\n# EOF\n";
        let plain = "\
# HELP a_build_info What runs.\n# TYPE a_build_info gauge\na_build_info{v=\"1\"} 1\n\
# HELP a_bytes_total Read.\n# TYPE a_bytes_total counter\na_bytes_total 3\n\
# HELP a_now Of now.\n# TYPE a_now gauge\na_now 1.5\n\
# HELP a_size Sizes.\n# TYPE a_size histogram\na_size_sum 3.0\na_size_count 1\n";
        assert_eq!(converted(open_metrics), plain);
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
            assert_eq!(is_wanted(accept), wanted, "{accept}");
        }
    }
}
