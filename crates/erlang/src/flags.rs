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
/// Bit 26 in every release (`dist.hrl`), whatever the protocol's description says of bit 36.
const MANDATORY_25_DIGEST: u64 = 0x400_0000;
const V4_NC: u64 = 1 << 34;
const ALIAS: u64 = 1 << 35;

/// What every node of OTP 25 can do. Nodes of that and later releases take one flag for all of them, and the
/// bits of these may mean something else some day.
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
    pub(crate) const fn are_sufficient(self) -> bool {
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const SPAWN: u64 = 1 << 32;
    const UNICODE_IO: u64 = 0x1000;
    const DIST_HDR_ATOM_CACHE: u64 = 0x2000;
    const PUBLISHED: u64 = 0x1;

    /// What a node of OTP 25 says of itself: the first of `erts_internal:get_dflags()`, and that it is no
    /// hidden one. OTP 26 and 27 say the same.
    pub(crate) const OTP_25: u64 = 0xd_07df_7fbc | PUBLISHED;
    /// A node of OTP 28 and later has one more to say.
    pub(crate) const OTP_28: u64 = OTP_25 | 1 << 37;
    /// A node of OTP 24 has no word for all that is mandatory.
    pub(crate) const OTP_24: u64 = OTP_25 & !MANDATORY_25_DIGEST;
    /// A node of OTP 22 does not know the handshake of version 6, nor what needs more than 32 bits.
    pub(crate) const OTP_22: u64 = 0xdf_7fbd;
    /// What a node is free to say when those of before OTP 25 need not understand it any more.
    pub(crate) const LATER_OTP: u64 = OTP_28 & !MANDATORY_25;

    #[test]
    fn the_releases_say_what_they_are_known_to_say() {
        let others = SPAWN | UNICODE_IO | DIST_HDR_ATOM_CACHE | PUBLISHED;
        assert_eq!(OTP_25, Flags::OWN.0 | others);
    }

    #[test]
    fn every_release_finds_here_what_it_demands() {
        let demanded_by_25 = 0x107_0f94;
        let demanded_by_26_and_27 = demanded_by_25 | V4_NC | UNLINK_ID;
        for demanded in [demanded_by_25, demanded_by_26_and_27] {
            assert_eq!(Flags::OWN.0 & demanded, demanded);
        }
        // Those that take the one flag for all of them, and heed their bits no more.
        assert_ne!(Flags::OWN.0 & 0x400_0000, 0);
    }

    #[test]
    fn nothing_is_promised_that_is_not_kept() {
        let promised = Flags::OWN.0;
        for other in [
            PUBLISHED,
            DIST_HDR_ATOM_CACHE,
            SPAWN,
            UNICODE_IO,
            1 << 33,
            1 << 36,
            1 << 37,
        ] {
            assert_eq!(promised & other, 0, "{other:#x}");
        }
    }

    #[test]
    fn one_flag_stands_for_all_that_is_mandatory() {
        for said in [OTP_22, OTP_24, OTP_25, OTP_28, LATER_OTP] {
            assert!(Flags::of_peer(said).are_sufficient(), "{said:#x}");
        }
        assert!(Flags::of_peer(LATER_OTP).has_handshake_6());
        for missing in [
            EXTENDED_REFERENCES,
            EXTENDED_PIDS_PORTS,
            UTF8_ATOMS,
            BIG_CREATION,
            NEW_FLOATS,
        ] {
            assert!(
                !Flags::of_peer(OTP_24 & !missing).are_sufficient(),
                "{missing:#x}"
            );
            assert!(
                Flags::of_peer(OTP_25 & !missing).are_sufficient(),
                "{missing:#x}"
            );
        }
    }
}
