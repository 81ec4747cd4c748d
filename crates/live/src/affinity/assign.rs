// SPDX-License-Identifier: GPL-2.0-only
//! Which kind of core each task is on for the next turn: a pure function.
//!
//! Each task is owed its share of the time that it runs, and pays for the kind that it is on. A kind's cores go to the
//! tasks that it owes most. Time that one task has beyond its share is missing for others, so all debts stay small, and
//! the shares come out in the long run. No core is left without a task while a slower kind has more tasks than its
//! part.

/// A running task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    /// CPU time that each kind owes it, ns; negative: it has had more than its share there.
    pub owed: Vec<f64>,
    /// CPU time that it would use in a turn, as a part of it, if it never had to wait.
    pub wants: f64,
    /// `cpu.weight`: 100 is even.
    pub weight: f64,
    /// The kinds that it may run on.
    pub allowed: Vec<bool>,
    /// The kind that it is on.
    pub now: Option<usize>,
}

/// The kind of each task; None: it may run on none. `stay_ns` is added to the debt of the kind that a task is on,
/// against needless moves.
pub(crate) fn assign(cores: &[f64], tasks: &[Candidate], stay_ns: f64) -> Vec<Option<usize>> {
    let uses = cpu_time(cores.iter().sum(), tasks);
    let mut left = cores.to_vec();
    let mut placed: Vec<Option<usize>> = vec![None; tasks.len()];
    let claim = |task: usize, kind: usize| {
        let stays = tasks[task].now == Some(kind);
        tasks[task].owed[kind] + if stays { stay_ns } else { 0.0 }
    };
    let mut pairs: Vec<(f64, usize, usize)> = (0..tasks.len())
        .flat_map(|task| (0..cores.len()).map(move |kind| (task, kind)))
        .filter(|(task, kind)| tasks[*task].allowed[*kind])
        .map(|(task, kind)| (claim(task, kind), kind, task))
        .collect();
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
    for (_, kind, task) in &pairs {
        // Half of its use has to fit: the rest evens out over the turns.
        if placed[*task].is_none() && left[*kind] >= uses[*task] / 2.0 {
            placed[*task] = Some(*kind);
            left[*kind] -= uses[*task];
        }
    }
    // A task that fits nowhere goes where most is left.
    for (task, kind) in placed.iter_mut().enumerate().filter(|(_, kind)| kind.is_none()) {
        let allowed = (0..cores.len()).filter(|kind| tasks[task].allowed[*kind]);
        *kind = allowed.max_by(|a, b| left[*a].total_cmp(&left[*b]));
        if let Some(kind) = *kind {
            left[kind] -= uses[task];
        }
    }
    fill(&mut placed, &mut left, &uses, &pairs);
    placed
}

/// Fills unused faster cores from slower kinds.
fn fill(
    placed: &mut [Option<usize>],
    left: &mut [f64],
    uses: &[f64],
    pairs: &[(f64, usize, usize)],
) {
    for (_, kind, task) in pairs {
        let Some(from) = placed[*task].filter(|from| from > kind) else { continue };
        // Only if it fits: otherwise tasks would share a core of the faster kind while its old core stays empty.
        if left[*kind] >= uses[*task] / 2.0 {
            placed[*task] = Some(*kind);
            left[*kind] -= uses[*task];
            left[from] += uses[*task];
        }
    }
}

/// CPU time that each task gets of so many cores: as much as it wants, or its part by weight.
fn cpu_time(cores: f64, tasks: &[Candidate]) -> Vec<f64> {
    let at = |level: f64| {
        tasks.iter().map(move |task| task.wants.min(task.weight * level)).collect::<Vec<f64>>()
    };
    let (mut low, mut high) = (0.0, cores.max(1.0));
    if at(high).iter().sum::<f64>() <= cores {
        return at(high);
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        match at(middle).iter().sum::<f64>() <= cores {
            true => low = middle,
            false => high = middle,
        }
    }
    at(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN_NS: f64 = 1e8;

    fn task(kinds: usize) -> Candidate {
        Candidate {
            owed: vec![0.0; kinds],
            wants: 1.0,
            weight: 100.0,
            allowed: vec![true; kinds],
            now: None,
        }
    }

    /// Fast shares after so many turns, from the shares that were asked for; CPU time as it is given.
    fn play(cores: &[f64], tasks: &mut [Candidate], shares: &[Vec<f64>], turns: usize) -> Vec<f64> {
        let mut had = vec![vec![0.0; cores.len()]; tasks.len()];
        for _ in 0..turns {
            let placed = assign(cores, tasks, TURN_NS / 2.0);
            for kind in 0..cores.len() {
                let here: Vec<usize> =
                    (0..tasks.len()).filter(|task| placed[*task] == Some(kind)).collect();
                let weight: f64 = here.iter().map(|task| tasks[*task].weight).sum();
                for at in here {
                    let task = &mut tasks[at];
                    let part = (cores[kind] * task.weight / weight).min(1.0) * TURN_NS;
                    had[at][kind] += part;
                    for (kind, owed) in task.owed.iter_mut().enumerate() {
                        *owed += shares[at][kind] * part;
                    }
                    task.owed[kind] -= part;
                    task.now = Some(kind);
                }
            }
        }
        had.iter().map(|kinds| kinds[0] / kinds.iter().sum::<f64>()).collect()
    }

    #[test]
    fn shares_come_out_in_a_hundred_turns() {
        for (cores, fast) in [
            (vec![2.0, 4.0], vec![1.0, 0.4346, 0.1951, 0.1679, 0.1333, 0.0690]),
            (vec![2.0, 4.0], vec![1.0 / 3.0; 6]),
            (vec![2.0, 4.0], vec![1.0 / 3.0; 12]),
            (vec![2.0, 4.0], vec![2.0 / 3.0; 3]),
            (vec![2.0, 4.0], vec![1.0]),
            (vec![1.0, 1.0], vec![0.7, 0.3]),
        ] {
            let shares: Vec<Vec<f64>> = fast.iter().map(|fast| vec![*fast, 1.0 - fast]).collect();
            let mut tasks = vec![task(2); fast.len()];
            let got = play(&cores, &mut tasks, &shares, 100);
            for (got, wanted) in got.iter().zip(&fast) {
                assert!((got - wanted).abs() < 0.04, "{got}, not {wanted}, of {fast:?}");
            }
        }
    }

    #[test]
    fn three_kinds_are_shared_as_well() {
        let cores = [1.0, 2.0, 1.0];
        let shares = vec![vec![0.25, 0.5, 0.25]; 4];
        let mut tasks = vec![task(3); 4];
        for got in play(&cores, &mut tasks, &shares, 200) {
            assert!((got - 0.25).abs() < 0.04, "{got}");
        }
    }

    #[test]
    fn tasks_stay_on_allowed_kinds_and_no_core_is_left_over() {
        let mut bound = task(2);
        bound.allowed = vec![false, true];
        bound.owed = vec![9e9, -9e9];
        assert_eq!(assign(&[2.0, 4.0], &[bound.clone()], 0.0), [Some(1)]);
        let mut nowhere = task(2);
        nowhere.allowed = vec![false, false];
        assert_eq!(assign(&[2.0, 4.0], &[nowhere], 0.0), [None]);
        // All have had more than their share of the fast cores, which still do not idle.
        let mut sated = task(2);
        sated.owed = vec![-5e8, 5e8];
        let placed = assign(&[2.0, 4.0], &vec![sated; 3], 0.0);
        assert_eq!(placed.iter().filter(|kind| **kind == Some(0)).count(), 2);
    }

    #[test]
    fn twelve_on_six_cores_are_four_and_eight() {
        let placed = assign(&[2.0, 4.0], &vec![task(2); 12], 0.0);
        assert_eq!(placed.iter().filter(|kind| **kind == Some(0)).count(), 4);
        let mut heavy = vec![task(2); 12];
        heavy[0].weight = 1000.0;
        let placed = assign(&[2.0, 4.0], &heavy, 0.0);
        assert_eq!(placed[0], Some(0));
        assert!(placed.iter().filter(|kind| **kind == Some(0)).count() < 4, "it fills a core");
    }
}
