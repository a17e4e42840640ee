//! Kernel settings that a workload needs at least, whatever a machine has.

use serde::Serialize;

use super::readings::Readings;
use super::{Diagnosis, Remedy, Workload};

/// A kernel setting and its least value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NeededSetting {
    /// Its name, with dots.
    pub name: &'static str,
    /// Its value; one that is larger is as good.
    pub value: String,
    /// What happens otherwise.
    pub why: &'static str,
}

/// Returns the settings that `wanted` needs on a machine with so much memory, by name.
///
/// They are what the doctor prescribes where each of them is zero, so it has no formulas of its
/// own. Settings that depend on more than the workload are not among them.
pub fn needed(wanted: Workload, memory: u64) -> Vec<NeededSetting> {
    let findings = Diagnosis::of(&nothing(memory), wanted).findings;
    let mut settings = Vec::new();
    for finding in findings {
        for remedy in finding.remedies {
            if let Remedy::Setting { name, value } = remedy {
                let why = finding.why;
                settings.push(NeededSetting { name, value, why });
            }
        }
    }
    settings.sort_by_key(|setting| setting.name);
    settings
}

/// A machine whose every limit is zero. What is not a limit is unknown.
fn nothing(memory: u64) -> Readings {
    Readings {
        descriptors_ceiling: Some(0),
        files_max: Some(0),
        files_open: Some(0),
        accept_queue: Some(0),
        handshakes: Some(0),
        tracked: Some((0, 0)),
        tcp_memory: Some([0; 3]),
        time_waits_max: Some(0),
        orphans_max: Some(0),
        device_queue: Some(0),
        receive_buffer_asked: Some(0),
        send_buffer_asked: Some(0),
        memory_total: Some(memory),
        memory_reserve: Some(0),
        ..Readings::default()
    }
}
