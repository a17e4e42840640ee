//! SVG picture of one user's friends and their friends: the user in the middle, friends on an inner
//! ring, friends of friends on an outer ring, lines for friendships, larger dots for users with
//! more friends.

use std::collections::{BTreeMap, HashMap};
use std::f64::consts::TAU;

use machine::failure::Outcome;
use machine::humanize::count;
use recorder::plot::canvas::{self, COLOURS, GREY, GRID, HPos, INK, RGBColor, SvgCanvas, SvgDrawn};

/// Most friends drawn, chosen by degree. More could not be told apart.
const FRIENDS_MAX: usize = 48;

/// Most friends of friends drawn, chosen by the number of friends in common with the user.
const OTHERS_MAX: usize = 160;

const SIZE: (u32, u32) = (860, 920);
const MIDDLE: (f64, f64) = (430.0, 490.0);
const FRIENDS_RADIUS: f64 = 230.0;
const OTHERS_RADIUS: f64 = 380.0;
const LABEL_RADIUS: f64 = 20.0;

const TEXT_SIZE: f64 = 12.0;
const TITLE_SIZE: f64 = 20.0;

const FRIEND: RGBColor = COLOURS[0];
const USER: RGBColor = COLOURS[1];
const TIE: RGBColor = COLOURS[5];

/// A user, and the friends and friends of friends to draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbourhood {
    user: u32,
    /// Sorted by id.
    friends: Vec<u32>,
    /// Sorted by id, each with the friends in common with the user, as indexes into `friends`.
    others: Vec<(u32, Vec<usize>)>,
    /// Friendships among `friends`, as indexes.
    ties: Vec<(usize, usize)>,
    /// Degree of each user drawn.
    degrees: HashMap<u32, u32>,
    friends_in_all: usize,
    others_in_all: usize,
}

impl Neighbourhood {
    /// Finds the neighbourhood of `user` in the graph with these edges and degrees.
    pub(super) fn of<E: Iterator<Item = (u32, u32)>>(
        user: u32,
        edges: impl Fn() -> E,
        degree: impl Fn(u32) -> u32,
    ) -> Self {
        let mut all: Vec<u32> = edges()
            .filter(|&(one, other)| one == user || other == user)
            .map(|(one, other)| if one == user { other } else { one })
            .collect();
        let friends_in_all = all.len();
        all.sort_unstable_by_key(|&friend| (std::cmp::Reverse(degree(friend)), friend));
        let mut friends: Vec<u32> = all.iter().copied().take(FRIENDS_MAX).collect();
        friends.sort_unstable();
        let place = |id: u32| friends.binary_search(&id).ok();
        let is_friend: std::collections::HashSet<u32> = all.into_iter().collect();
        let (mut ties, mut common) = (Vec::new(), BTreeMap::<u32, Vec<usize>>::new());
        for (one, other) in edges() {
            match (place(one), place(other)) {
                (Some(one), Some(other)) => ties.push((one, other)),
                (Some(friend), None) if other != user && !is_friend.contains(&other) => {
                    common.entry(other).or_default().push(friend);
                }
                (None, Some(friend)) if one != user && !is_friend.contains(&one) => {
                    common.entry(one).or_default().push(friend);
                }
                _ => {}
            }
        }
        let others_in_all = common.len();
        let mut others: Vec<(u32, Vec<usize>)> = common.into_iter().collect();
        others.sort_by_key(|(id, shared)| (std::cmp::Reverse(shared.len()), *id));
        others.truncate(OTHERS_MAX);
        others.sort_unstable_by_key(|(id, _)| *id);
        let drawn = friends.iter().chain(others.iter().map(|(id, _)| id));
        let degrees = drawn
            .chain(std::iter::once(&user))
            .map(|&id| (id, degree(id)));
        Self {
            user,
            degrees: degrees.collect(),
            friends,
            others,
            ties,
            friends_in_all,
            others_in_all,
        }
    }

    fn title(&self) -> String {
        format!(
            "User {}: {} friends",
            self.user,
            count(self.friends_in_all as u64)
        )
    }

    /// Explains which users are drawn.
    fn caption(&self) -> String {
        let mut text = if self.friends.len() < self.friends_in_all {
            format!(
                "{} of them are drawn, those with most friends; ",
                self.friends.len()
            )
        } else {
            String::new()
        };
        text.push_str(&format!(
            "outer ring: {} of their {} other friends, those with most friends in common",
            count(self.others.len() as u64),
            count(self.others_in_all as u64)
        ));
        text
    }
}

/// Draws a neighbourhood as an SVG document.
///
/// # Errors
///
/// When the drawing library fails.
pub fn svg(neighbourhood: &Neighbourhood) -> Outcome<String> {
    canvas::svg(SIZE, |canvas| draw(neighbourhood, canvas))
}

fn draw<'a>(all: &Neighbourhood, canvas: &SvgCanvas<'a>) -> SvgDrawn<'a> {
    canvas.text(&all.title(), (40, 26), TITLE_SIZE, INK, HPos::Left)?;
    canvas.text(&all.caption(), (40, 52), TEXT_SIZE, GREY, HPos::Left)?;
    let angles: Vec<f64> = (0..all.friends.len())
        .map(|place| TAU * place as f64 / all.friends.len() as f64)
        .collect();
    let outer = outer_angles(all, &angles);
    let middle = at(0.0, 0.0);
    let inner = |friend: usize| at(FRIENDS_RADIUS, angles[friend]);
    for ((_, shared), &angle) in all.others.iter().zip(&outer) {
        for &friend in shared {
            canvas.rule(at(OTHERS_RADIUS, angle), inner(friend), GRID)?;
        }
    }
    for &(one, other) in &all.ties {
        canvas.rule(inner(one), inner(other), TIE)?;
    }
    for friend in 0..angles.len() {
        canvas.rule(middle, inner(friend), GREY)?;
    }
    for ((id, _), &angle) in all.others.iter().zip(&outer) {
        let place = at(OTHERS_RADIUS, angle);
        canvas.dot(place, radius(all.degrees[id]), GREY)?;
    }
    for (id, &angle) in all.friends.iter().zip(&angles) {
        let place = at(FRIENDS_RADIUS, angle);
        canvas.dot(place, radius(all.degrees[id]), FRIEND)?;
        // Labels are outside the ring, left or right of the dot.
        let side = if angle.cos() < 0.0 {
            HPos::Right
        } else {
            HPos::Left
        };
        let place = at(FRIENDS_RADIUS + LABEL_RADIUS, angle);
        canvas.text(&id.to_string(), place, TEXT_SIZE, INK, side)?;
    }
    canvas.dot(middle, radius(all.degrees[&all.user]), USER)
}

/// Returns the angles on the outer ring: evenly spread, each near the friends in common.
fn outer_angles(all: &Neighbourhood, friends: &[f64]) -> Vec<f64> {
    let towards = |shared: &[usize]| {
        let sum = |part: fn(f64) -> f64| -> f64 {
            shared.iter().map(|&friend| part(friends[friend])).sum()
        };
        let (x, y) = (sum(f64::cos), sum(f64::sin));
        y.atan2(x).rem_euclid(TAU)
    };
    let mut places: Vec<(usize, f64)> = all
        .others
        .iter()
        .map(|(_, shared)| towards(shared))
        .enumerate()
        .collect();
    places.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut angles = vec![0.0; places.len()];
    let first = places.first().map_or(0.0, |place| place.1);
    for (rank, (index, _)) in places.iter().enumerate() {
        angles[*index] = first + TAU * rank as f64 / places.len() as f64;
    }
    angles
}

/// Returns the pixel at this distance and angle from the middle.
fn at(radius: f64, angle: f64) -> (i32, i32) {
    let (x, y) = MIDDLE;
    (
        (x + radius * angle.cos()).round() as i32,
        (y + radius * angle.sin()).round() as i32,
    )
}

/// Returns the radius of a dot whose area grows with the number of friends.
fn radius(friends: u32) -> i32 {
    (f64::from(friends).sqrt() * 0.8).clamp(2.0, 16.0) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(user: u32, edges: &[(u32, u32)]) -> Neighbourhood {
        let degree = |id| {
            let ends = edges
                .iter()
                .filter(|(one, other)| *one == id || *other == id);
            ends.count() as u32
        };
        Neighbourhood::of(user, || edges.iter().copied(), degree)
    }

    #[test]
    fn friends_ties_and_friends_of_friends_are_found() {
        let found = of(1, &[(2, 1), (3, 1), (3, 2), (4, 2), (4, 3), (5, 4), (6, 3)]);
        assert_eq!(found.friends, [2, 3]);
        assert_eq!(found.ties, [(1, 0)]);
        // 5 is a friend of no friend.
        assert_eq!(found.others, [(4, vec![0, 1]), (6, vec![1])]);
        assert_eq!((found.friends_in_all, found.others_in_all), (2, 2));
        assert_eq!(found.degrees[&3], 4);
    }

    #[test]
    fn of_many_friends_those_with_the_highest_degree_are_drawn() {
        let mut edges: Vec<(u32, u32)> = (2..=100).map(|friend| (friend, 1)).collect();
        edges.extend([(200, 99), (201, 99), (200, 100), (202, 2)]);
        let found = of(1, &edges);
        assert_eq!(found.friends.len(), FRIENDS_MAX);
        assert!(found.friends.contains(&99) && found.friends.contains(&100));
        let text = svg(&found).unwrap();
        for words in [
            "User 1: 99 friends",
            "48 of them are drawn, those with most friends; outer ring: 3 of their 3",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
        assert_eq!(text.matches("<circle").count(), 1 + 48 + 3);
    }

    #[test]
    fn the_outer_ring_is_near_the_friends_in_common() {
        // Four friends, each with one other friend.
        let edges = [
            (2, 1),
            (3, 1),
            (4, 1),
            (5, 1),
            (12, 2),
            (13, 3),
            (14, 4),
            (15, 5),
        ];
        let found = of(1, &edges);
        let angles: Vec<f64> = (0..4).map(|place| TAU * f64::from(place) / 4.0).collect();
        for (outer, friend) in outer_angles(&found, &angles).iter().zip(&angles) {
            assert!((outer - friend).abs() < 1e-9, "{outer} {friend}");
        }
    }
}
