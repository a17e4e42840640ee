//! Any bytes as a JWKS document, as PEM and as a secret: no panic, and bounds that hold.
#![no_main]

use auth::KeySet;
use auth::keys::{KEYS_MAX, SECRET_BYTES_MIN};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for keys in [KeySet::from_jwks(data), KeySet::from_pem(data)] {
        match keys {
            Ok(keys) => assert!(keys.len() + keys.ignored() <= KEYS_MAX),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    if KeySet::from_secret(data).is_ok() {
        assert!(data.len() >= SECRET_BYTES_MIN);
    }
});
