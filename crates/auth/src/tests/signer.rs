//! An issuer for tests, which signs whatever it is given.

use std::sync::{Arc, LazyLock};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RsaPublicKeyComponents,
};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::keys::Algorithm;
use crate::{Identity, KeySet, Policy, PolicySettings, TokenError, UnixSeconds};

pub(super) const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

pub(super) const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::Hs256,
    Algorithm::Rs256,
    Algorithm::Es256,
    Algorithm::EdDsa,
];

/// One key of an issuer. Keys are made once for all tests.
pub(super) enum Signer {
    Secret(Vec<u8>),
    Rsa(Box<RsaKeyPair>),
    Ecdsa(Box<EcdsaKeyPair>),
    Ed25519(Box<Ed25519KeyPair>),
}

/// The issuer that policies of tests trust.
static TRUSTED: LazyLock<[Signer; 4]> = LazyLock::new(|| ALGORITHMS.map(Signer::new));

/// Another issuer.
static STRANGER: LazyLock<[Signer; 4]> = LazyLock::new(|| ALGORITHMS.map(Signer::new));

pub(super) fn trusted(algorithm: Algorithm) -> &'static Signer {
    &TRUSTED[algorithm as usize]
}

pub(super) fn stranger(algorithm: Algorithm) -> &'static Signer {
    &STRANGER[algorithm as usize]
}

impl Signer {
    pub(super) fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Hs256 => {
                let mut secret = vec![0; 32];
                aws_lc_rs::rand::fill(&mut secret).unwrap();
                // Not taken for text.
                secret[0] = 0;
                Self::Secret(secret)
            }
            Algorithm::Rs256 => Self::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap().into()),
            Algorithm::Es256 => {
                let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING);
                Self::Ecdsa(pair.unwrap().into())
            }
            Algorithm::EdDsa => Self::Ed25519(Ed25519KeyPair::generate().unwrap().into()),
        }
    }

    pub(super) fn algorithm(&self) -> Algorithm {
        match self {
            Self::Secret(_) => Algorithm::Hs256,
            Self::Rsa(_) => Algorithm::Rs256,
            Self::Ecdsa(_) => Algorithm::Es256,
            Self::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    /// Signs a header and a payload as they are, with the algorithm of the key.
    pub(super) fn sign(&self, header: &str, payload: &str) -> String {
        let message = format!("{}.{}", base64url(header), base64url(payload));
        let signature = self.signature(message.as_bytes());
        format!("{message}.{}", base64url(signature))
    }

    /// Signs claims under the usual header.
    pub(super) fn token(&self, claims: &Value) -> String {
        self.sign(&self.header(), &claims.to_string())
    }

    /// Signs claims under a header with a `kid`.
    pub(super) fn token_with_kid(&self, kid: &str, claims: &Value) -> String {
        let header = json!({"alg": self.algorithm().name(), "typ": "JWT", "kid": kid});
        self.sign(&header.to_string(), &claims.to_string())
    }

    pub(super) fn header(&self) -> String {
        format!(r#"{{"alg":"{}","typ":"JWT"}}"#, self.algorithm().name())
    }

    pub(super) fn signature(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Secret(secret) => hmac_sha256(secret, message),
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .unwrap();
                signature
            }
            Self::Ecdsa(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// Returns the public key in PEM.
    pub(super) fn pem(&self) -> String {
        let der = match self {
            Self::Secret(_) => unreachable!("a secret has no public key"),
            Self::Rsa(pair) => pair.public_key().as_der().unwrap().as_ref().to_vec(),
            Self::Ecdsa(pair) => pair.public_key().as_der().unwrap().as_ref().to_vec(),
            Self::Ed25519(pair) => pair.public_key().as_der().unwrap().as_ref().to_vec(),
        };
        armoured("PUBLIC KEY", &der)
    }

    /// Returns the public key, or the secret, as a JWK.
    pub(super) fn jwk(&self, kid: &str) -> Value {
        match self {
            Self::Secret(secret) => json!({"kty": "oct", "kid": kid, "k": base64url(secret)}),
            Self::Rsa(pair) => {
                let parts: RsaPublicKeyComponents<Vec<u8>> = pair.public_key().into();
                let (n, e) = (base64url(parts.n), base64url(parts.e));
                json!({"kty": "RSA", "kid": kid, "n": n, "e": e})
            }
            Self::Ecdsa(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (base64url(&point[1..33]), base64url(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "kid": kid, "x": x, "y": y})
            }
            Self::Ed25519(pair) => {
                let x = base64url(pair.public_key());
                json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": x})
            }
        }
    }

    /// Returns the key as a file of it would be read.
    pub(super) fn keys(&self) -> KeySet {
        match self {
            Self::Secret(secret) => KeySet::from_secret(secret).unwrap(),
            _ => KeySet::from_pem(self.pem().as_bytes()).unwrap(),
        }
    }
}

pub(super) fn hmac_sha256(secret: &[u8], message: &[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    hmac::sign(&key, message).as_ref().to_vec()
}

pub(super) fn base64url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(super) fn armoured(label: &str, der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    let lines: Vec<_> = body.as_bytes().chunks(64).collect();
    let body = String::from_utf8(lines.join(&b'\n')).unwrap();
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
}

pub(super) fn jwks(keys: &[Value]) -> KeySet {
    let document = json!({"keys": keys}).to_string();
    KeySet::from_jwks(document.as_bytes()).unwrap()
}

/// Returns the policy that trusts all keys of the trusted issuer, each in a file of its own.
pub(super) fn policy() -> Policy {
    policy_with(PolicySettings::default())
}

pub(super) fn policy_with(settings: PolicySettings) -> Policy {
    ALGORITHMS
        .iter()
        .fold(Policy::new(settings), |policy, &algorithm| {
            let keys = Arc::new(trusted(algorithm).keys());
            policy.with_keys(algorithm.name(), keys)
        })
}

/// Claims that every policy without issuer and audience accepts.
pub(super) fn claims() -> Value {
    json!({"sub": "alice", "iat": NOW.0, "exp": NOW.0 + 3600})
}

/// Claims with some of them replaced or added.
pub(super) fn claims_with(more: Value) -> Value {
    let mut claims = claims();
    let Value::Object(more) = more else {
        unreachable!("an object");
    };
    claims.as_object_mut().unwrap().extend(more);
    claims
}

/// Returns what a policy says of claims that the trusted issuer has signed.
pub(super) fn verify(policy: &Policy, claims: &Value) -> Result<Identity, TokenError> {
    policy.verify(&trusted(Algorithm::EdDsa).token(claims), NOW)
}
