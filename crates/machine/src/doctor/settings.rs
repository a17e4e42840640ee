//! Kernel settings that a workload needs on any machine.

use serde::Serialize;

use super::readings::Readings;
use super::{Diagnosis, Remedy, Workload};

/// Kernel setting with the minimum value needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NeededSetting {
    /// Name with dots.
    pub name: &'static str,
    /// Minimum value.
    pub value: String,
    /// What happens with less.
    pub why: &'static str,
}

/// Returns the settings that `wanted` needs on a machine with `memory` bytes, sorted by name.
///
/// They are the doctor's remedies for a machine on which each setting is zero, so there are no
/// formulas here. Settings that depend on more than the workload are not included.
pub fn needed(wanted: Workload, memory: u64) -> Vec<NeededSetting> {
    let findings = Diagnosis::of(&all_zero(memory), wanted).findings;
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

/// Readings of a machine on which every limit is zero. Everything else is unknown.
fn all_zero(memory: u64) -> Readings {
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
