//! Names of the runs of nodes.

/// Incarnation of a node: identifies one run of it among all runs of all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(pub u64);
