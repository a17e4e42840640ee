//! Findings about descriptors: each connection is an open file, counted by its table, its process
//! and the machine.

use super::readings::Readings;
use super::{Finding, Remedy, Severity, Workload, capacity};
use crate::humanize::count;

/// Open files of other processes.
const FILES_OTHERS: u64 = 20_000;

pub(super) fn findings(readings: &Readings, wanted: &Workload) -> Vec<Finding> {
    let mut findings = vec![table(readings, wanted)];
    findings.extend(ceiling(readings, wanted));
    findings.extend(machine(readings, wanted));
    findings
}

/// The descriptor table of the process, or of each worker.
fn table(readings: &Readings, wanted: &Workload) -> Finding {
    let &Workload {
        connections,
        workers,
        private_fds,
        ..
    } = wanted;
    let whose = if private_fds {
        "for each worker"
    } else {
        "for the process"
    };
    let needed = capacity::descriptors(connections, workers, private_fds);
    let (soft, hard) = (readings.descriptors_soft, readings.descriptors_hard);
    let mut finding = Finding::new(
        "descriptors",
        "each connection is an open file; without a descriptor it is refused",
    )
    .found(if soft == hard {
        format!("{} {whose}", count(hard))
    } else {
        // The server raises its own soft limit, as any process may.
        format!(
            "{} {whose} ({} unless it asks for more)",
            count(hard),
            count(soft)
        )
    })
    .needed(format!("{} {whose}", count(needed)))
    .when(hard < needed, Severity::Blocker);
    if let Some(least) =
        capacity::workers(connections, hard).filter(|&least| !private_fds || least > workers)
    {
        finding = finding
            .remedy(|| Remedy::advice(format!("encke serve --private-fds --workers {least}")));
    }
    finding.remedy(|| {
        Remedy::advice(format!(
            "ulimit -Hn {needed} as root before the server starts, or LimitNOFILE={needed} in its \
             unit"
        ))
    })
}

/// Limit up to which root may raise that of a table.
fn ceiling(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let ceiling = readings.descriptors_ceiling?;
    let needed = capacity::descriptors(wanted.connections, wanted.workers, wanted.private_fds);
    Some(
        Finding::new(
            "descriptor ceiling",
            "not even root may raise a limit on descriptors beyond it",
        )
        .found(count(ceiling))
        .needed(count(needed))
        .when(ceiling < needed, Severity::Advice)
        .remedy(|| Remedy::setting("fs.nr_open", needed)),
    )
}

/// Open files of the whole machine.
fn machine(readings: &Readings, wanted: &Workload) -> Option<Finding> {
    let (most, open) = (readings.files_max?, readings.files_open.unwrap_or(0));
    let needed = wanted.ends() + FILES_OTHERS;
    let left = most.saturating_sub(open);
    Some(
        Finding::new(
            "open files",
            "all processes together may not have more files open than this",
        )
        .found(format!(
            "{} more for the whole machine",
            count(left.min(1 << 53))
        ))
        .needed(count(needed))
        .when(left < needed, Severity::Blocker)
        .remedy(|| Remedy::setting("fs.file-max", open + needed)),
    )
}
