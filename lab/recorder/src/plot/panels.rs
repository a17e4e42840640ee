//! Panels of a recording: memory, kernel, connections, CPU, network.

use super::recording::Recording;
use super::{Figure, Line, Panel, Unit, XScale};
use crate::record::row::{
    CONNECTIONS, CPU_SYSTEM, CPU_USER, ELAPSED, NETWORK_SENT, RESIDENT, SLAB,
};
use clap::ValueEnum;
use machine::failure::{Failure, Outcome};

/// Share of the largest number of connections from which the cost of one is drawn. With fewer
/// connections, fixed costs dominate.
const CONNECTIONS_SHARE: f64 = 0.1;

/// Points over time. `None` is a gap.
type Points = Vec<Option<(f64, f64)>>;

/// Kind of panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PanelKind {
    /// Resident memory of the process
    Memory,
    /// Kernel memory for objects (slabs)
    Kernel,
    /// Established connections
    Connections,
    /// CPU time of the process
    #[value(name = "processor")]
    CpuTime,
    /// Bytes sent per second
    Network,
}

impl PanelKind {
    /// Panels drawn by default.
    pub const USUAL: [Self; 4] = [Self::Memory, Self::Kernel, Self::Connections, Self::CpuTime];

    /// Returns the columns that the panel needs, its title, and the unit.
    fn describe(self) -> (&'static [&'static str], &'static str, Unit) {
        match self {
            Self::Memory => (&[RESIDENT], "Resident memory of the process", Unit::Bytes),
            Self::Kernel => (
                &[SLAB],
                "Objects in the kernel, of all processes",
                Unit::Bytes,
            ),
            Self::Connections => (&[CONNECTIONS], "Established connections", Unit::Count),
            Self::CpuTime => (
                &[CPU_USER, CPU_SYSTEM],
                "CPU time of the process",
                Unit::Cores,
            ),
            Self::Network => (
                &[NETWORK_SENT],
                "Sent on all interfaces",
                Unit::BytesPerSecond,
            ),
        }
    }

    fn columns(self) -> &'static [&'static str] {
        self.describe().0
    }
}

/// Builds a figure in which all `recordings` share the panels. Without `kinds` it has the usual
/// panels for which there is data.
///
/// # Errors
///
/// When no recording has data for a panel of `kinds`, or for any of the usual panels.
pub fn figure(
    recordings: &[Recording],
    kinds: Option<&[PanelKind]>,
    title: &str,
) -> Outcome<Figure> {
    let mut panels = Vec::new();
    for &kind in kinds.unwrap_or(&PanelKind::USUAL) {
        let shown: Vec<&Recording> = recordings
            .iter()
            .filter(|recording| kind.columns().iter().all(|column| recording.has(column)))
            .collect();
        if !shown.is_empty() {
            panels.push(panel(kind, &shown));
        } else if kinds.is_some() {
            return Err(missing(kind, recordings));
        }
    }
    if panels.is_empty() {
        return Err(missing(PanelKind::Kernel, recordings));
    }
    Ok(Figure {
        title: title.to_owned(),
        panels,
        across: XScale::Time,
    })
}

fn missing(kind: PanelKind, recordings: &[Recording]) -> Failure {
    let labels: Vec<&str> = recordings.iter().map(|each| each.label.as_str()).collect();
    let hint = match kind {
        PanelKind::Memory | PanelKind::CpuTime => {
            "; `encke-lab record` fills it with --pid or --name"
        }
        _ => "",
    };
    Failure::new(format!(
        "nothing can be drawn of {}: the column {} is missing or empty{hint}",
        labels.join(", "),
        kind.columns().join(" or "),
    ))
}

fn panel(kind: PanelKind, recordings: &[&Recording]) -> Panel {
    let lines = |values: fn(&Recording, PanelKind) -> Points| {
        let line = |recording: &&Recording| Line {
            label: recording.label.clone(),
            pieces: pieces(values(recording, kind)),
        };
        recordings.iter().map(line).collect::<Vec<Line>>()
    };
    let (_, title, unit) = kind.describe();
    let mut panel = Panel::new(title, unit, lines(values));
    if matches!(kind, PanelKind::Memory | PanelKind::Kernel) {
        let mut lines = lines(each);
        lines.retain(|line| !line.pieces.is_empty());
        let each = Panel::new("", Unit::BytesEach, lines).left;
        panel.right = Some(each).filter(|axis| !axis.lines.is_empty());
    }
    panel
}

/// Returns the points for the left axis. `None` is a gap; a cell that was not due is left out and
/// makes no gap.
fn values(recording: &Recording, kind: PanelKind) -> Points {
    let columns = kind.columns();
    match kind {
        PanelKind::Memory | PanelKind::Kernel => level(recording, columns[0]),
        PanelKind::Connections => {
            let mut points = level(recording, columns[0]);
            points.retain(Option::is_some);
            points
        }
        PanelKind::CpuTime | PanelKind::Network => rate(recording, columns),
    }
}

/// Returns the values of a column over time.
fn level(recording: &Recording, column: &str) -> Points {
    let cells = recording.column(ELAPSED).zip(recording.column(column));
    cells.map(|(time, value)| time.zip(value)).collect()
}

/// Returns the rate at which the sum of columns grows. If the sum falls, it belongs to another
/// process, which makes a gap.
fn rate(recording: &Recording, columns: &[&str]) -> Points {
    let mut sums = vec![Some(0.0); recording.rows()];
    for column in columns {
        for (sum, cell) in sums.iter_mut().zip(recording.column(column)) {
            *sum = sum.zip(cell).map(|(sum, cell)| sum + cell);
        }
    }
    let times = recording.column(ELAPSED).zip(sums);
    let points: Points = times.map(|(time, sum)| time.zip(sum)).collect();
    points
        .windows(2)
        .map(|pair| {
            let ((before, low), (now, high)) = pair[0].zip(pair[1])?;
            (now > before && high >= low).then(|| (now, (high - low) / (now - before)))
        })
        .collect()
}

/// Returns the cost of a connection over time, where there are enough connections: the process's
/// memory, or the growth of the kernel's since the start, divided by their number.
fn each(recording: &Recording, kind: PanelKind) -> Points {
    let Some(most) = recording.most(CONNECTIONS) else {
        return Vec::new();
    };
    let column = kind.columns()[0];
    let first = match kind {
        PanelKind::Kernel => recording.column(column).flatten().next().unwrap_or(0.0),
        _ => 0.0,
    };
    let enough = (most * CONNECTIONS_SHARE).max(1.0);
    level(recording, column)
        .into_iter()
        .zip(recording.column(CONNECTIONS))
        .filter_map(|(point, connections)| {
            let ((time, value), connections) = point.zip(connections)?;
            let each = (value - first).max(0.0) / connections;
            (connections >= enough).then_some(Some((time, each)))
        })
        .collect()
}

/// Splits a line at its gaps.
fn pieces(points: Points) -> Vec<Vec<(f64, f64)>> {
    points
        .split(Option::is_none)
        .map(|piece| piece.iter().copied().flatten().collect::<Vec<_>>())
        .filter(|piece| !piece.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(rows: &str) -> Recording {
        let titles = [
            "time",
            ELAPSED,
            "pid",
            RESIDENT,
            CPU_USER,
            CPU_SYSTEM,
            CONNECTIONS,
            SLAB,
        ];
        let text = format!("{}\n{rows}", titles.join(","));
        Recording::parse("mem", "mem.csv", &text).unwrap()
    }

    const ROWS: &str = "t,0,7,1000,0,0,0,5000\n\
        t,10,7,2000,5,5,10,6000\n\
        t,20,7,3000,10,15,,7000\n\
        t,30,,,,,100,8000\n\
        t,40,8,4000,1,1,100,9000\n\
        t,50,8,4000,2,1,5,9000\n";

    #[test]
    fn lines_have_a_gap_while_there_is_no_process() {
        let figure = figure(&[recording(ROWS)], None, "").unwrap();
        assert_eq!(figure.panels.len(), 4);
        let memory = &figure.panels[0].left.lines[0].pieces;
        assert_eq!(memory.len(), 2);
        assert_eq!(memory[0], [(0.0, 1000.0), (10.0, 2000.0), (20.0, 3000.0)]);
        // A cell that was not due makes no gap.
        let connections = &figure.panels[2].left.lines[0].pieces;
        assert_eq!(connections.len(), 1);
        let processor = &figure.panels[3].left.lines[0].pieces;
        assert_eq!(
            processor,
            &[vec![(10.0, 1.0), (20.0, 1.5)], vec![(50.0, 0.1)]]
        );
    }

    #[test]
    fn the_cost_of_a_connection_needs_enough_connections() {
        let figure = figure(&[recording(ROWS)], None, "").unwrap();
        let each = |panel: usize| &figure.panels[panel].right.as_ref().unwrap().lines[0].pieces;
        assert_eq!(each(0), &[vec![(10.0, 200.0), (40.0, 40.0)]]);
        assert_eq!(each(1), &[vec![(10.0, 100.0), (30.0, 30.0), (40.0, 40.0)]]);
    }

    #[test]
    fn the_error_names_the_missing_column() {
        let machine = recording("t,0,,,,,0,5000\n");
        let shown = figure(std::slice::from_ref(&machine), None, "").unwrap();
        assert_eq!(shown.panels.len(), 2);
        let error = figure(&[machine], Some(&[PanelKind::Memory]), "")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("nothing can be drawn of mem") && error.contains("--pid"),
            "{error}"
        );
        let empty = Recording::parse("x", "x.csv", "time,elapsed_seconds\nt,1\n").unwrap();
        let error = figure(&[empty], None, "").unwrap_err().to_string();
        assert!(error.contains("slab_bytes is missing"), "{error}");
    }
}
