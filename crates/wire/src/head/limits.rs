//! Limits of a head.

/// Most bytes of a head, blank line and leading empty lines included. Ample for browsers with
/// cookies; nginx allows the same for a single line.
pub const HEAD_BYTES_MAX: usize = 8192;

/// Most fields of a head. Browsers behind two proxies send about thirty.
pub const FIELDS_MAX: usize = 64;

/// Most bytes of a request target: room for 128 ids of thirty bytes each.
pub const TARGET_BYTES_MAX: usize = 4096;

const _: () = assert!(TARGET_BYTES_MAX < HEAD_BYTES_MAX);
