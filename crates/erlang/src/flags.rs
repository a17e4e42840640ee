//! What nodes tell each other they can do ("Distribution Protocol", distribution flags).

/// Flags of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flags(pub(crate) u64);

const EXTENDED_REFERENCES: u64 = 0x4;
const DIST_MONITOR: u64 = 0x8;
const FUN_TAGS: u64 = 0x10;
const DIST_MONITOR_NAME: u64 = 0x20;
const NEW_FUN_TAGS: u64 = 0x80;
const EXTENDED_PIDS_PORTS: u64 = 0x100;
const EXPORT_PTR_TAG: u64 = 0x200;
const BIT_BINARIES: u64 = 0x400;
const NEW_FLOATS: u64 = 0x800;
const SMALL_ATOM_TAGS: u64 = 0x4000;
const UTF8_ATOMS: u64 = 0x1_0000;
const MAP_TAG: u64 = 0x2_0000;
const BIG_CREATION: u64 = 0x4_0000;
const SEND_SENDER: u64 = 0x8_0000;
const BIG_SEQTRACE_LABELS: u64 = 0x10_0000;
const EXIT_PAYLOAD: u64 = 0x40_0000;
const FRAGMENTS: u64 = 0x80_0000;
const HANDSHAKE_23: u64 = 0x100_0000;
const UNLINK_ID: u64 = 0x200_0000;
const V4_NC: u64 = 1 << 34;
const ALIAS: u64 = 1 << 35;
const MANDATORY_25_DIGEST: u64 = 1 << 36;

/// What every node of OTP 25 can do, and says with one flag.
const MANDATORY_25: u64 = EXTENDED_REFERENCES
    | FUN_TAGS
    | NEW_FUN_TAGS
    | EXTENDED_PIDS_PORTS
    | EXPORT_PTR_TAG
    | BIT_BINARIES
    | NEW_FLOATS
    | UTF8_ATOMS
    | MAP_TAG
    | BIG_CREATION
    | HANDSHAKE_23;

/// Without these a peer's pids could not be told apart, or it could not read what is sent.
const NEEDED: u64 =
    EXTENDED_REFERENCES | EXTENDED_PIDS_PORTS | UTF8_ATOMS | BIG_CREATION | NEW_FLOATS;

impl Flags {
    /// Those of this node. It is hidden (`PUBLISHED` is missing) and keeps no atoms (so are both flags of
    /// atom caches), starts no processes for others (`SPAWN`) and has its own name (`NAME_ME`).
    pub(crate) const OWN: Self = Self(
        MANDATORY_25
            | DIST_MONITOR
            | DIST_MONITOR_NAME
            | SMALL_ATOM_TAGS
            | SEND_SENDER
            | BIG_SEQTRACE_LABELS
            | EXIT_PAYLOAD
            | FRAGMENTS
            | UNLINK_ID
            | V4_NC
            | ALIAS
            | MANDATORY_25_DIGEST,
    );

    /// Those of a peer.
    pub(crate) const fn of_peer(said: u64) -> Self {
        if said & MANDATORY_25_DIGEST != 0 {
            Self(said | MANDATORY_25)
        } else {
            Self(said)
        }
    }

    /// Whether a node with these can be talked to.
    pub(crate) const fn suffice(self) -> bool {
        self.0 & NEEDED == NEEDED
    }

    pub(crate) const fn has_handshake_6(self) -> bool {
        self.0 & HANDSHAKE_23 != 0
    }

    pub(crate) const fn has_fragments(self) -> bool {
        self.0 & FRAGMENTS != 0
    }

    pub(crate) const fn has_alias(self) -> bool {
        self.0 & ALIAS != 0
    }
}
