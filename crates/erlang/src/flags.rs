//! Distribution flags: the capabilities of a node ("Distribution Protocol", distribution flags).

/// A set of distribution flags.
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
/// Bit 26 in every release (`dist.hrl`), although the protocol's documentation says bit 36.
const MANDATORY_25_DIGEST: u64 = 0x400_0000;
const V4_NC: u64 = 1 << 34;
const ALIAS: u64 = 1 << 35;

/// Capabilities of every node since OTP 25. Later releases replace these flags by one flag, and may
/// give their bits another meaning.
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

/// Flags without which the pids of a peer are ambiguous, or the peer cannot read messages of this
/// node.
const NEEDED: u64 =
    EXTENDED_REFERENCES | EXTENDED_PIDS_PORTS | UTF8_ATOMS | BIG_CREATION | NEW_FLOATS;

impl Flags {
    /// The flags of this node. It is hidden (no `PUBLISHED`), has no atom cache (neither of its
    /// flags), starts no processes for others (no `SPAWN`), and chooses its own name (no
    /// `NAME_ME`).
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

    /// Interprets the flags that a peer has sent.
    pub(crate) const fn of_peer(sent: u64) -> Self {
        if sent & MANDATORY_25_DIGEST != 0 {
            Self(sent | MANDATORY_25)
        } else {
            Self(sent)
        }
    }

    /// Whether this node can work with a peer that has these flags.
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

    /// Flags of OTP 25: the first value of `erts_internal:get_dflags()`, and `PUBLISHED`. OTP 26
    /// and 27 have the same.
    pub(crate) const OTP_25: u64 = 0xd_07df_7fbc | PUBLISHED;
    /// Flags of OTP 28, which has one more.
    pub(crate) const OTP_28: u64 = OTP_25 | 1 << 37;
    /// Flags of OTP 24, which lacks the flag for all mandatory ones.
    pub(crate) const OTP_24: u64 = OTP_25 & !MANDATORY_25_DIGEST;
    /// Flags of OTP 22, which lacks version 6 of the handshake and all flags above 32 bits.
    pub(crate) const OTP_22: u64 = 0xdf_7fbd;
    /// Flags of a later release that no longer sends the flags that have been mandatory since OTP
    /// 25.
    pub(crate) const LATER_OTP: u64 = OTP_28 & !MANDATORY_25;

    #[test]
    fn own_flags_are_a_subset_of_those_of_otp_25() {
        let others = SPAWN | UNICODE_IO | DIST_HDR_ATOM_CACHE | PUBLISHED;
        assert_eq!(OTP_25, Flags::OWN.0 | others);
    }

    #[test]
    fn own_flags_include_all_mandatory_ones() {
        let demanded_by_25 = 0x107_0f94;
        let demanded_by_26_and_27 = demanded_by_25 | V4_NC | UNLINK_ID;
        for demanded in [demanded_by_25, demanded_by_26_and_27] {
            assert_eq!(Flags::OWN.0 & demanded, demanded);
        }
        // Later releases check only the flag that stands for all mandatory ones.
        assert_ne!(Flags::OWN.0 & 0x400_0000, 0);
    }

    #[test]
    fn own_flags_include_no_unsupported_ones() {
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
    fn one_flag_stands_for_all_mandatory_ones() {
        for sent in [OTP_22, OTP_24, OTP_25, OTP_28, LATER_OTP] {
            assert!(Flags::of_peer(sent).are_sufficient(), "{sent:#x}");
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
