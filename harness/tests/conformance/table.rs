//! The rows of `requests.tsv`, whose first lines explain its columns. Included by the tests of each
//! crate that reads requests.

/// Most splits of one row.
const SPLITS_MAX: usize = 400;

/// A request, and what becomes of it.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Verdict on its first head: the name of a `HeadError`, `more`, or the body that follows.
    pub(crate) head: &'static str,
    pub(crate) public: Outcome,
    pub(crate) control: Outcome,
    pub(crate) hello: Outcome,
    pub(crate) bytes: Vec<u8>,
}

/// Answers of a listener to a request and to the marker behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Statuses of the answers to the row, 100 included.
    pub(crate) statuses: Vec<u16>,
    /// Whether the marker is answered too. If not, the connection ends.
    pub(crate) kept: bool,
}

impl Row {
    /// Returns the request with the marker behind it. If more of the request itself is awaited, the
    /// marker would be taken for that.
    pub(crate) fn input(&self) -> Vec<u8> {
        match self.head {
            "more" => self.bytes.clone(),
            _ => [&self.bytes, MARKER].concat(),
        }
    }
}

impl Outcome {
    /// Returns the statuses of all answers, where the marker is answered with `marker`.
    pub(crate) fn with_marker(&self, marker: u16) -> Vec<u16> {
        let marker = self.kept.then_some(marker);
        self.statuses.iter().copied().chain(marker).collect()
    }
}

/// Returns where to split an input: everywhere, or at some 400 places if it has thousands of bytes.
pub(crate) fn splits(input: &[u8]) -> impl Iterator<Item = usize> {
    (0..input.len()).step_by(input.len() / SPLITS_MAX + 1)
}

/// Returns the statuses of all answers in a text. A reason may name the version as well.
pub(crate) fn statuses(answers: &str) -> Vec<u16> {
    let answers = answers.split("HTTP/1.1 ").skip(1);
    answers
        .filter_map(|answer| answer.get(..3)?.parse().ok())
        .collect()
}

/// The request that is sent behind each row. It is answered only if the row has ended where the
/// table says.
pub(crate) const MARKER: &[u8] =
    b"GET /marker HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Reads the table.
pub(crate) fn rows() -> Vec<Row> {
    let lines = include_str!("requests.tsv").lines();
    let rows = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rows: Vec<Row> = rows.map(row).collect();
    assert!(rows.len() >= 215, "the table has {} rows", rows.len());
    rows
}

fn row(line: &'static str) -> Row {
    let columns: Vec<&str> = line.split('\t').collect();
    let [name, _source, head, public, control, hello, bytes] = columns[..] else {
        panic!("seven columns are needed: {line}");
    };
    Row {
        name,
        head,
        public: outcome(public),
        control: outcome(control),
        hello: outcome(hello),
        bytes: unescape(bytes),
    }
}

fn outcome(text: &str) -> Outcome {
    let statuses = text.trim_end_matches(['+', '.', '-']).split(',');
    Outcome {
        statuses: statuses.filter_map(|status| status.parse().ok()).collect(),
        kept: text.ends_with('+'),
    }
}

/// Undoes `\r`, `\n`, `\t`, `\\`, `\xNN` and `\{COUNT:TEXT}`, which stands for a repetition.
fn unescape(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        if first != '\\' {
            bytes.push(u8::try_from(first).expect("the table is ASCII"));
            continue;
        }
        let escape = rest.chars().next().expect("an escape has a letter");
        rest = &rest[1..];
        match escape {
            'r' => bytes.push(b'\r'),
            'n' => bytes.push(b'\n'),
            't' => bytes.push(b'\t'),
            '\\' => bytes.push(b'\\'),
            'x' => {
                bytes.push(u8::from_str_radix(&rest[..2], 16).expect("two hexadecimal digits"));
                rest = &rest[2..];
            }
            '{' => {
                let (repetition, after) = rest.split_once('}').expect("a repetition ends");
                let (count, text) = repetition.split_once(':').expect("a count and a text");
                let count = count.parse().expect("a count");
                bytes.extend(unescape(text).repeat(count));
                rest = after;
            }
            other => panic!("no escape: \\{other}"),
        }
    }
    bytes
}
