//! Frames of one event by encoding.
//!
//! A worker numbers the encodings that its sessions use, so that an event has a few places in its
//! own record and not one for each encoding that exists.

use std::collections::HashMap;
use std::num::NonZeroU32;

use wire::encoding::Encoding;

/// Name of an event of the current turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TurnEvent(pub(super) u32);

/// Encodings whose frames an event has places for. A worker with sessions of more than these looks
/// the others up in a map.
pub(super) const LANES: usize = 4;

/// Place of a frame among those of the turn, from 1.
type FramePlace = NonZeroU32;

/// Places of an event's frames, by lane.
pub(super) type LanePlaces = [Option<FramePlace>; LANES];

/// Numbers of a worker's encodings, and the places of the frames that have no lane.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// The lane of each encoding, from 1; [`Self::NO_LANE`] once all lanes are taken.
    of: [u8; Encoding::ALL.len()],
    taken: u8,
    others: HashMap<(TurnEvent, Encoding), FramePlace>,
}

impl Lanes {
    /// Number of an encoding that has no lane.
    const NO_LANE: u8 = u8::MAX;

    /// Returns the place of an event's frame, if it is encoded.
    pub(super) fn get(
        &self,
        places: &LanePlaces,
        event: TurnEvent,
        encoding: Encoding,
    ) -> Option<FramePlace> {
        match self.of[encoding as usize] {
            0 => None,
            Self::NO_LANE => self.others.get(&(event, encoding)).copied(),
            lane => places[usize::from(lane) - 1],
        }
    }

    /// Sets the place of an event's frame.
    pub(super) fn set(
        &mut self,
        places: &mut LanePlaces,
        event: TurnEvent,
        encoding: Encoding,
        place: FramePlace,
    ) {
        let lane = &mut self.of[encoding as usize];
        if *lane == 0 {
            *lane = match usize::from(self.taken) < LANES {
                true => self.taken + 1,
                false => Self::NO_LANE,
            };
            self.taken = self.taken.saturating_add(1);
        }
        match *lane {
            Self::NO_LANE => {
                self.others.insert((event, encoding), place);
            }
            lane => places[usize::from(lane) - 1] = Some(place),
        }
    }

    /// Ends the turn, after all events are removed. When encodings were without a lane, all are
    /// numbered anew in the next turn: those of sessions that have gone must not keep a lane.
    pub(super) fn end_turn(&mut self) {
        if usize::from(self.taken) > LANES {
            self.of = [0; Encoding::ALL.len()];
            self.taken = 0;
            self.others.clear();
        }
    }

    /// Frees working memory that grew in a burst.
    pub(super) fn trim(&mut self) {
        if self.others.capacity() != 0 && self.others.is_empty() {
            self.others = HashMap::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: u32) -> FramePlace {
        FramePlace::new(number).expect("places count from 1")
    }

    #[test]
    fn every_encoding_of_an_event_keeps_its_own_frame_with_or_without_a_lane() {
        let mut lanes = Lanes::default();
        for _turn in 0..3 {
            let mut events = [[None; LANES]; 3];
            for (number, encoding) in (0..).zip(Encoding::ALL) {
                for (event, places) in (0..).zip(&mut events) {
                    let name = TurnEvent(event);
                    assert_eq!(lanes.get(places, name, encoding), None);
                    lanes.set(places, name, encoding, place(1 + event * 100 + number));
                }
            }
            for (number, encoding) in (0..).zip(Encoding::ALL) {
                for (event, places) in (0..).zip(&events) {
                    let found = lanes.get(places, TurnEvent(event), encoding);
                    assert_eq!(found, Some(place(1 + event * 100 + number)));
                }
            }
            lanes.end_turn();
            assert!(
                lanes.others.is_empty(),
                "events of the next turn have the same names"
            );
        }
    }

    #[test]
    fn encodings_of_sessions_that_have_gone_give_their_lanes_to_others() {
        let mut lanes = Lanes::default();
        let mut places = [None; LANES];
        for encoding in Encoding::ALL {
            lanes.set(&mut places, TurnEvent(0), encoding, place(1));
        }
        let last = Encoding::TestPlain;
        assert_eq!(lanes.of[last as usize], Lanes::NO_LANE);
        lanes.end_turn();
        lanes.set(&mut places, TurnEvent(0), last, place(1));
        assert_eq!(lanes.of[last as usize], 1);
        lanes.end_turn();
        assert_eq!(
            lanes.of[last as usize], 1,
            "lanes stay while there are enough"
        );
    }
}
