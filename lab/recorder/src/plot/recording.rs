//! Parser of files that `encke-lab record` writes.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::record::row::{ELAPSED, TIME};
use machine::failure::{Context, Failure, Outcome};

/// Contents of a recording, by column.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// Name in the legend: the file's name without its extension.
    pub label: String,
    columns: HashMap<String, Vec<Option<f64>>>,
    rows: usize,
}

impl Recording {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, and those of [`parse`](Self::parse).
    pub fn read(path: &Path) -> Outcome<Self> {
        let shown = path.display();
        let bytes = fs::read(path).context(format_args!("{shown} cannot be read"))?;
        let label = path.file_stem().unwrap_or(path.as_os_str());
        let text = String::from_utf8(bytes).map_err(|_| not_ours(&shown.to_string()))?;
        Self::parse(&label.to_string_lossy(), &shown.to_string(), &text)
    }

    /// Parses the text of a file called `name`.
    ///
    /// # Errors
    ///
    /// When the text is empty or is not a recording.
    pub fn parse(label: &str, name: &str, text: &str) -> Outcome<Self> {
        let mut lines = text.lines().enumerate();
        let titles: Vec<&str> = match lines.next() {
            Some((_, line)) => line.trim_start_matches('\u{feff}').split(',').collect(),
            None => return Err(Failure::new(format!("{name} is empty: {REMEDY}"))),
        };
        if titles.first() != Some(&TIME) || !titles.contains(&ELAPSED) {
            return Err(not_ours(name));
        }
        let mut columns = vec![Vec::new(); titles.len()];
        let mut rows = 0;
        // A recording that was interrupted may end with an incomplete row.
        let whole = text.ends_with('\n');
        let count = text.lines().count();
        for (number, line) in lines {
            let cells: Vec<&str> = line.split(',').collect();
            if cells.len() != titles.len() {
                if number + 1 == count && !whole {
                    break;
                }
                return Err(Failure::new(format!(
                    "line {} of {name} has {} cells and the first line {}: the file is damaged \
                     there; remove the line",
                    number + 1,
                    cells.len(),
                    titles.len()
                )));
            }
            for ((column, title), cell) in columns.iter_mut().zip(&titles).zip(cells) {
                column.push(number_of(title, cell).map_err(|why| {
                    Failure::new(format!("line {} of {name}: {why}", number + 1))
                })?);
            }
            rows += 1;
        }
        if rows == 0 {
            return Err(Failure::new(format!(
                "{name} has titles and no rows: {REMEDY}"
            )));
        }
        let titles = titles.into_iter().map(str::to_owned);
        Ok(Self {
            label: label.to_owned(),
            columns: titles.zip(columns).collect(),
            rows,
        })
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Iterates over the cells of a column. A missing column is empty in every row.
    pub fn column(&self, title: &str) -> impl Iterator<Item = Option<f64>> {
        let cells = self.columns.get(title);
        (0..self.rows).map(move |row| cells.and_then(|cells| cells[row]))
    }

    /// Whether a column has a number in any row.
    pub fn has(&self, title: &str) -> bool {
        self.column(title).any(|cell| cell.is_some())
    }

    /// Returns the largest number of a column.
    pub fn most(&self, title: &str) -> Option<f64> {
        self.column(title).flatten().reduce(f64::max)
    }

    /// Returns the last number of a column.
    pub fn last(&self, title: &str) -> Option<f64> {
        self.column(title).flatten().last()
    }
}

/// Remedy for a file without data.
const REMEDY: &str = "record something with `encke-lab record -o FILE`, for at least two rows";

fn not_ours(name: &str) -> Failure {
    Failure::new(format!(
        "{name} is not a file that `encke-lab record` wrote: its first line should begin with \
         `{TIME},{ELAPSED},`"
    ))
}

/// Parses a cell: a number or nothing. The time of day is ignored.
fn number_of(title: &str, cell: &str) -> Result<Option<f64>, String> {
    if cell.is_empty() || title == TIME {
        return Ok(None);
    }
    match cell.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Some(number)),
        _ => Err(format!("`{cell}` is not a number, but {title} must be one")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Outcome<Recording> {
        Recording::parse("mem", "mem.csv", text)
    }

    #[track_caller]
    fn refused(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn cells_are_numbers_or_empty() {
        let text = "time,elapsed_seconds,pid,x\n2026-01-01T00:00:00Z,0.000,7,\nt,1.5,,3\n";
        let recording = parse(text).unwrap();
        assert_eq!(recording.rows(), 2);
        let column = |title: &str| recording.column(title).collect::<Vec<_>>();
        assert_eq!(column(ELAPSED), [Some(0.0), Some(1.5)]);
        assert_eq!(column("x"), [None, Some(3.0)]);
        assert_eq!(column("missing"), [None, None]);
        assert!(recording.has("x") && !recording.has("missing"));
        assert_eq!(
            (recording.most("pid"), recording.last("pid")),
            (Some(7.0), Some(7.0))
        );
    }

    #[test]
    fn the_output_of_record_parses() {
        use crate::record::row::{Row, header};
        use std::time::{Duration, SystemTime};
        let row = Row::at(SystemTime::UNIX_EPOCH, Duration::from_secs(3));
        let recording = parse(&format!("{}\n{row}\n", header())).unwrap();
        assert_eq!(recording.last(ELAPSED), Some(3.0));
    }

    #[test]
    fn an_incomplete_row_is_ignored_only_at_the_end() {
        let cut = "time,elapsed_seconds,x\nt,0,1\nt,1";
        assert_eq!(parse(cut).unwrap().rows(), 1);
        let torn = "time,elapsed_seconds,x\nt,0\nt,1,1\n";
        assert!(refused(torn).starts_with("line 2 of mem.csv has 2 cells and the first line 3"));
    }

    #[test]
    fn other_files_are_refused() {
        assert!(refused("").contains("is empty"));
        assert!(refused("a,b\n1,2\n").contains("is not a file that `encke-lab record` wrote"));
        assert!(refused("time,elapsed_seconds\n").contains("no rows"));
        let word = refused("time,elapsed_seconds\nt,soon\n");
        assert!(word.contains("`soon` is not a number"), "{word}");
        assert!(refused("time,elapsed_seconds\nt,inf\n").contains("not a number"));
        let missing = Recording::read(Path::new("/nowhere/mem.csv")).unwrap_err();
        assert!(missing.to_string().contains("cannot be read"));
    }
}
