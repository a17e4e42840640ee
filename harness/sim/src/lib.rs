//! Simulations of the whole server in one thread, from one seed.
//!
//! Has tests alone, and depends on other crates for them alone: what stands for networks, disks and
//! clocks is behind the feature `sim` of the crates that own it, and in no release.

/// Random lives of a server, from its disk to its clients.
#[cfg(test)]
mod lives;
