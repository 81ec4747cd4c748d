// SPDX-License-Identifier: GPL-2.0-only
//! Points that are drawn: a Latin hypercube (McKay, Beckman and Conover 1979).

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

/// One coordinate of so many points: 0 to 1 is divided into as many parts, and each part has one point.
pub fn coordinates(points: usize, random: &mut Pcg64) -> Vec<f64> {
    let mut parts: Vec<usize> = (0..points).collect();
    parts.shuffle(random);
    let mut within = |part: usize| (part as f64 + random.random::<f64>()) / points as f64;
    parts.into_iter().map(&mut within).collect()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn each_part_has_one_point() {
        let mut drawn = coordinates(20, &mut Pcg64::seed_from_u64(1));
        drawn.sort_by(f64::total_cmp);
        assert!(
            drawn.iter().enumerate().all(|(part, at)| (at * 20.0) as usize == part),
            "{drawn:?}"
        );
    }
}
