//! Limits of keys and of their documents.

/// Longest PEM or JWKS document, in bytes: a key takes about 500, or 2,000 with its certificates.
pub const DOCUMENT_BYTES_MAX: usize = 256 * 1024;

/// Most keys of one source. Large issuers publish about ten.
pub const KEYS_MAX: usize = 128;

/// Shortest secret for HMAC, in bytes: as long as the hash (RFC 7518, section 3.2).
pub const SECRET_BYTES_MIN: usize = 32;
