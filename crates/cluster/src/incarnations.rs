//! Random numbers of incarnations.

use replication::Incarnation;

/// Returns a new incarnation; `None` if the system has no random bits now.
pub(crate) fn random() -> Option<Incarnation> {
    let mut bytes = [0; size_of::<u64>()];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    Incarnation::new(u64::from_ne_bytes(bytes))
}
