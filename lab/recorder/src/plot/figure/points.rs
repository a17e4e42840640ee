//! Points of a line: thinned out, and cut into dashes.

/// Most points drawn of a line, more than can be distinguished.
const POINTS_MAX: usize = 2000;

/// Returns at most [`POINTS_MAX`] points that look the same: the lowest and the highest of each
/// group.
pub(super) fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let group = points.len().div_ceil(POINTS_MAX / 2);
    let extremes = |group: &[(f64, f64)]| {
        let by_height = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let lowest = *group.iter().min_by(by_height).expect("a group has points");
        let highest = *group.iter().max_by(by_height).expect("a group has points");
        if lowest.0 <= highest.0 {
            [lowest, highest]
        } else {
            [highest, lowest]
        }
    };
    points.chunks(group).flat_map(extremes).collect()
}

/// Cuts a line into dashes.
pub(super) fn dashes(points: &[(f64, f64)]) -> Vec<Vec<(f64, f64)>> {
    const DASH: f64 = 7.0;
    const GAP: f64 = 5.0;
    let mut dashes: Vec<Vec<(f64, f64)>> = Vec::new();
    let (mut drawing, mut left) = (true, DASH);
    let Some(&(mut at)) = points.first() else {
        return dashes;
    };
    dashes.push(vec![at]);
    for &next in &points[1..] {
        loop {
            let (dx, dy) = (next.0 - at.0, next.1 - at.1);
            let length = dx.hypot(dy);
            if length < left {
                left -= length;
                at = next;
                if drawing {
                    dashes.last_mut().expect("a dash was begun").push(at);
                }
                break;
            }
            let share = left / length;
            at = (at.0 + dx * share, at.1 + dy * share);
            if drawing {
                dashes.last_mut().expect("a dash was begun").push(at);
            } else {
                dashes.push(vec![at]);
            }
            drawing = !drawing;
            left = if drawing { DASH } else { GAP };
        }
    }
    dashes.retain(|dash| dash.len() > 1);
    dashes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_cover_seven_parts_of_twelve() {
        let line = [(0.0, 0.0), (30.0, 40.0), (1230.0, 40.0)];
        let length = |points: &[(f64, f64)]| {
            let steps = points.windows(2);
            steps
                .map(|pair| (pair[1].0 - pair[0].0).hypot(pair[1].1 - pair[0].1))
                .sum::<f64>()
        };
        let drawn: f64 = dashes(&line).iter().map(|dash| length(dash)).sum();
        assert!((drawn / length(&line) - 7.0 / 12.0).abs() < 0.01, "{drawn}");
        assert!(dashes(&[]).is_empty() && dashes(&[(1.0, 1.0)]).is_empty());
    }

    #[test]
    fn thinning_keeps_the_extremes_and_the_order() {
        let points: Vec<(f64, f64)> = (0..100_000)
            .map(|x| {
                (
                    f64::from(x),
                    if x == 77_777 { 1e9 } else { f64::from(x % 7) },
                )
            })
            .collect();
        let few = thin(&points);
        assert!(few.len() <= POINTS_MAX + 2);
        assert!(few.contains(&(77_777.0, 1e9)));
        assert!(few.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }
}
