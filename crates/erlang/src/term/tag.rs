//! Tags of the external term format (erts, "External Term Format").

/// The version byte before a whole term.
pub(crate) const VERSION: u8 = 131;

pub(crate) const NEW_FLOAT: u8 = 70;
pub(crate) const BIT_BINARY: u8 = 77;
pub(crate) const NEW_PID: u8 = 88;
pub(crate) const NEW_PORT: u8 = 89;
pub(crate) const NEWER_REFERENCE: u8 = 90;
pub(crate) const SMALL_INTEGER: u8 = 97;
pub(crate) const INTEGER: u8 = 98;
pub(crate) const FLOAT: u8 = 99;
/// Latin-1.
pub(crate) const ATOM: u8 = 100;
pub(crate) const PORT: u8 = 102;
pub(crate) const PID: u8 = 103;
pub(crate) const SMALL_TUPLE: u8 = 104;
pub(crate) const LARGE_TUPLE: u8 = 105;
pub(crate) const NIL: u8 = 106;
/// A list of bytes.
pub(crate) const STRING: u8 = 107;
pub(crate) const LIST: u8 = 108;
pub(crate) const BINARY: u8 = 109;
pub(crate) const SMALL_BIG: u8 = 110;
pub(crate) const LARGE_BIG: u8 = 111;
pub(crate) const NEW_FUN: u8 = 112;
pub(crate) const EXPORT: u8 = 113;
pub(crate) const NEW_REFERENCE: u8 = 114;
/// Latin-1.
pub(crate) const SMALL_ATOM: u8 = 115;
pub(crate) const MAP: u8 = 116;
pub(crate) const ATOM_UTF8: u8 = 118;
pub(crate) const SMALL_ATOM_UTF8: u8 = 119;
pub(crate) const V4_PORT: u8 = 120;
