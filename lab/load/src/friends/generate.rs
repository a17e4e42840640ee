//! Generator of Barabási and Albert's random graph with the algorithm of Batagelj and Brandes
//! (Efficient generation of large random networks, 2005), in time linear in the number of edges.
//!
//! The list of the ends of all edges contains each user once for each friend. A uniform draw from
//! it therefore draws users in proportion to their degree, without a table of weights.
//!
//! Each user in turn makes `degree` friends among the earlier users. There are no loops, as only
//! earlier users are drawn, and no double edges, as a repeated draw is discarded. The first
//! `degree` + 1 users are all friends of each other. So a graph has exactly `users * degree -
//! degree * (degree + 1) / 2` edges, and every user has at least `degree` friends.

use clap::Args;
use client::random::Random;
use machine::failure::{Failure, Outcome};
use serde::Serialize;

/// Options of a graph to generate.
#[derive(Debug, Clone, Copy, Args, Serialize)]
pub struct Options {
    /// Number of users; their ids are 1, 2, 3 and so on
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub users: u32,
    /// Friends that each new user chooses; on average a user has twice as many
    #[arg(long, value_name = "D", default_value_t = 15)]
    pub degree: u32,
    /// Seed of the graph; the same seed gives the same graph on every machine
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
}

/// Generator, which makes users one after another. It stores four bytes for each edge.
#[derive(Debug)]
pub struct Generator {
    options: Options,
    random: Random,
    /// Older end of each edge, in order of creation. The newer end follows from the position.
    older: Vec<u32>,
    /// Newer end of the edges among the first `degree` + 1 users.
    newer_of_first: Vec<u32>,
    /// Number of users made. Here users are numbered from 0, ids from 1.
    made: u32,
    /// Ids of the friends that the last user made.
    friends: Vec<u32>,
}

impl Generator {
    /// Creates a generator. The caller has checked `options`.
    ///
    /// # Errors
    ///
    /// When there is not enough memory for the edges.
    pub fn new(options: Options) -> Outcome<Self> {
        let edges = edges(options);
        let mut older = Vec::new();
        older.try_reserve_exact(edges as usize).map_err(|_| {
            Failure::new(format!(
                "{edges} friendships need {} MiB of memory, which is not available: give fewer \
                 users or a smaller degree",
                (edges * 4) >> 20
            ))
        })?;
        Ok(Self {
            options,
            random: Random::seeded(options.seed),
            older,
            newer_of_first: Vec::new(),
            made: 0,
            friends: Vec::new(),
        })
    }

    /// Makes the next user. Returns its id, and the ids of the friends that it makes among earlier
    /// users.
    pub fn next_user(&mut self) -> Option<(u32, &[u32])> {
        if self.made == self.options.users {
            return None;
        }
        let user = self.made;
        let before = self.older.len();
        if user <= self.options.degree {
            self.older.extend(0..user);
            self.newer_of_first.extend((0..user).map(|_| user));
        } else {
            self.draw(before);
        }
        self.made += 1;
        self.friends.clear();
        self.friends
            .extend(self.older[before..].iter().map(|friend| friend + 1));
        Some((user + 1, &self.friends))
    }

    /// Draws the next user's friends among the ends of the first `before` edges.
    fn draw(&mut self, before: usize) {
        let ends = before as u64 * 2;
        while self.older.len() < before + self.options.degree as usize {
            let place = self.random.below(ends);
            let friend = self.end(place);
            if !self.older[before..].contains(&friend) {
                self.older.push(friend);
            }
        }
    }

    /// Returns the user at `place` in the list of all ends. Each edge has two ends, the newer one
    /// first.
    fn end(&self, place: u64) -> u32 {
        let edge = (place / 2) as usize;
        if place % 2 == 1 {
            return self.older[edge];
        }
        match self.newer_of_first.get(edge) {
            Some(&newer) => newer,
            None => {
                let later = (edge - self.newer_of_first.len()) as u64;
                let degree = self.options.degree;
                degree + 1 + (later / u64::from(degree)) as u32
            }
        }
    }

    /// Returns the number of users made.
    pub fn made(&self) -> u32 {
        self.made
    }

    /// Returns the number of friendships made.
    pub fn edges(&self) -> u64 {
        self.older.len() as u64
    }

    /// Iterates over the friendships made: ids, newer user first.
    pub fn friendships(&self) -> impl Iterator<Item = (u32, u32)> {
        let older = self.older.iter().enumerate();
        older.map(|(edge, &older)| (self.end(edge as u64 * 2) + 1, older + 1))
    }

    /// Returns the degree of each user made, in order of ids.
    pub fn degrees(&self) -> Vec<u32> {
        let degree = self.options.degree;
        let mut degrees: Vec<u32> = (0..self.made).map(|user| user.min(degree)).collect();
        for &older in &self.older {
            degrees[older as usize] += 1;
        }
        degrees
    }
}

/// Returns the number of friendships in a complete graph of these options.
fn edges(options: Options) -> u64 {
    let (users, degree) = (u64::from(options.users), u64::from(options.degree));
    users * degree - degree * (degree + 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn friendships_are_simple_and_as_many_as_promised(
            degree in 1u32..12,
            more in 1u32..300,
            seed: u64,
        ) {
            let users = degree + more;
            let options = Options { users, degree, seed };
            let mut generator = Generator::new(options).unwrap();
            let (mut pairs, mut counted) = (HashSet::new(), vec![0; users as usize]);
            let mut expected = 1;
            while let Some((user, friends)) = generator.next_user() {
                prop_assert_eq!(user, expected);
                expected += 1;
                prop_assert_eq!(friends.len() as u32, (user - 1).min(degree));
                for &friend in friends {
                    prop_assert!((1..user).contains(&friend), "{} and {}", user, friend);
                    prop_assert!(pairs.insert((user, friend)), "{} and {} twice", user, friend);
                    counted[user as usize - 1] += 1;
                    counted[friend as usize - 1] += 1;
                }
            }
            prop_assert_eq!(expected, users + 1);
            prop_assert_eq!(pairs.len() as u64, edges(options));
            prop_assert_eq!(generator.degrees(), counted);
        }
    }

    #[test]
    fn each_position_of_the_list_is_an_end_of_its_edge() {
        let options = Options {
            users: 40,
            degree: 4,
            seed: 3,
        };
        let mut generator = Generator::new(options).unwrap();
        let mut ends = Vec::new();
        while let Some((user, friends)) = generator.next_user() {
            ends.extend(friends.iter().flat_map(|friend| [user, *friend]));
        }
        for (place, &id) in ends.iter().enumerate() {
            assert_eq!(generator.end(place as u64) + 1, id, "place {place}");
        }
    }
}
