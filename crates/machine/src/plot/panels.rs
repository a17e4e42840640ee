//! What is drawn of a recording: memory, kernel, connections, processor, network.

use super::recording::Recording;
use super::{Axis, Figure, Line, Panel, Unit, XScale};
use crate::failure::{Failure, Outcome};
use crate::record::row::{
    CONNECTIONS, CPU_SYSTEM, CPU_USER, ELAPSED, NETWORK_SENT, RESIDENT, SLAB,
};

/// Fewer connections than this share of the most say little about what one of them costs: fixed
/// costs are in it.
const CONNECTIONS_SHARE: f64 = 0.1;

/// Points over time; `None` is a gap.
type Points = Vec<Option<(f64, f64)>>;

/// A panel that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PanelKind {
    /// Resident memory of the process, and for each connection.
    Memory,
    /// Objects of the kernel, and for each connection since the start.
    Kernel,
    /// Established connections.
    Connections,
    /// Processors that the process keeps busy.
    CpuTime,
    /// Bytes sent on all interfaces in a second.
    Network,
}

impl PanelKind {
    /// Those that are drawn unless others are asked for.
    pub const USUAL: [Self; 4] = [Self::Memory, Self::Kernel, Self::Connections, Self::CpuTime];

    /// The columns without which it cannot be drawn.
    fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Memory => &[RESIDENT],
            Self::Kernel => &[SLAB],
            Self::Connections => &[CONNECTIONS],
            Self::CpuTime => &[CPU_USER, CPU_SYSTEM],
            Self::Network => &[NETWORK_SENT],
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Memory => "Resident memory of the process",
            Self::Kernel => "Objects in the kernel, of all processes",
            Self::Connections => "Established connections",
            Self::CpuTime => "Processor time of the process",
            Self::Network => "Sent on all interfaces",
        }
    }

    fn unit(self) -> Unit {
        match self {
            Self::Memory | Self::Kernel => Unit::Bytes,
            Self::Connections => Unit::Count,
            Self::CpuTime => Unit::Cores,
            Self::Network => Unit::BytesPerSecond,
        }
    }
}

/// A figure of `recordings` one over the other. Without `kinds` it shows what is usual and there.
///
/// # Errors
///
/// When a panel that was asked for is in none of the recordings, or none at all is.
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
        PanelKind::Memory | PanelKind::CpuTime => "; `encke record` fills it with --pid or --name",
        _ => "",
    };
    Failure::new(format!(
        "there is nothing to draw of {}: the column {} is missing or empty{hint}",
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
    let left = Axis {
        title: kind.title().to_owned(),
        unit: kind.unit(),
        lines: lines(values),
    };
    let right = matches!(kind, PanelKind::Memory | PanelKind::Kernel).then(|| Axis {
        title: String::new(),
        unit: Unit::BytesEach,
        lines: lines(each)
            .into_iter()
            .filter(|line| !line.pieces.is_empty())
            .collect(),
    });
    Panel {
        left,
        right: right.filter(|axis| !axis.lines.is_empty()),
    }
}

/// What is drawn against the scale on the left. `None` is a gap; what was not due is no gap.
fn values(recording: &Recording, kind: PanelKind) -> Points {
    match kind {
        PanelKind::Memory => level(recording, RESIDENT),
        PanelKind::Kernel => level(recording, SLAB),
        PanelKind::Connections => level(recording, CONNECTIONS)
            .into_iter()
            .filter(Option::is_some)
            .collect(),
        PanelKind::CpuTime => rate(recording, &[CPU_USER, CPU_SYSTEM]),
        PanelKind::Network => rate(recording, &[NETWORK_SENT]),
    }
}

/// A column over time.
fn level(recording: &Recording, column: &str) -> Points {
    let cells = recording.column(ELAPSED).zip(recording.column(column));
    cells.map(|(time, value)| time.zip(value)).collect()
}

/// How fast the sum of columns grows, by time; a sum that falls is another process's.
fn rate(recording: &Recording, columns: &[&str]) -> Points {
    let mut sums = vec![Some(0.0); recording.rows()];
    for column in columns {
        for (sum, cell) in sums.iter_mut().zip(recording.column(column)) {
            *sum = sum.zip(cell).map(|(sum, cell)| sum + cell);
        }
    }
    let times: Vec<Option<f64>> = recording.column(ELAPSED).collect();
    let points: Points = times
        .into_iter()
        .zip(sums)
        .map(|(time, sum)| time.zip(sum))
        .collect();
    points
        .windows(2)
        .map(|pair| {
            let ((before, low), (now, high)) = pair[0].zip(pair[1])?;
            (now > before && high >= low).then(|| (now, (high - low) / (now - before)))
        })
        .collect()
}

/// What a connection costs, where there are enough of them: of the process all of it, of the kernel
/// what it took since the start.
fn each(recording: &Recording, kind: PanelKind) -> Points {
    let Some(most) = recording.most(CONNECTIONS) else {
        return Vec::new();
    };
    let column = if kind == PanelKind::Kernel {
        SLAB
    } else {
        RESIDENT
    };
    let first = match kind {
        PanelKind::Kernel => recording.column(SLAB).flatten().next().unwrap_or(0.0),
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

/// Parts a line at its gaps.
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
    fn lines_part_where_there_is_no_process() {
        let figure = figure(&[recording(ROWS)], None, "").unwrap();
        assert_eq!(figure.panels.len(), 4);
        let memory = &figure.panels[0].left.lines[0].pieces;
        assert_eq!(memory.len(), 2);
        assert_eq!(memory[0], [(0.0, 1000.0), (10.0, 2000.0), (20.0, 3000.0)]);
        // A cell that was not due is no gap.
        let connections = &figure.panels[2].left.lines[0].pieces;
        assert_eq!(connections.len(), 1);
        let processor = &figure.panels[3].left.lines[0].pieces;
        assert_eq!(
            processor,
            &[vec![(10.0, 1.0), (20.0, 1.5)], vec![(50.0, 0.1)]]
        );
    }

    #[test]
    fn a_connection_costs_what_it_costs_when_there_are_enough() {
        let figure = figure(&[recording(ROWS)], None, "").unwrap();
        let each = |panel: usize| &figure.panels[panel].right.as_ref().unwrap().lines[0].pieces;
        assert_eq!(each(0), &[vec![(10.0, 200.0), (40.0, 40.0)]]);
        assert_eq!(each(1), &[vec![(10.0, 100.0), (30.0, 30.0), (40.0, 40.0)]]);
    }

    #[test]
    fn what_is_missing_is_a_sentence() {
        let machine = recording("t,0,,,,,0,5000\n");
        let shown = figure(std::slice::from_ref(&machine), None, "").unwrap();
        assert_eq!(shown.panels.len(), 2);
        let error = figure(&[machine], Some(&[PanelKind::Memory]), "")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("nothing to draw of mem") && error.contains("--pid"),
            "{error}"
        );
        let empty = Recording::parse("x", "x.csv", "time,elapsed_seconds\nt,1\n").unwrap();
        let error = figure(&[empty], None, "").unwrap_err().to_string();
        assert!(error.contains("slab_bytes is missing"), "{error}");
    }
}
