// SPDX-License-Identifier: GPL-2.0-only
//! Relabel: assigns the rows of a layout to domains, so that as many threads as possible stay.
//!
//! A layout says how many of each class are together, not where. If a thread ends, all places
//! behind it change. Without this step other threads would move although the layout differs only in
//! names.

/// The assignment of rows to columns with the greatest sum of `worth`, by columns. `worth` is
/// square, row by row.
///
/// The method of Kuhn and Munkres with shortest augmenting paths. It takes n cubed steps: domains
/// are few.
pub fn best(worth: &[Vec<i64>]) -> Vec<usize> {
    let n = worth.len();
    let (mut by_row, mut by_column) = (vec![0i64; n + 1], vec![0i64; n + 1]);
    // For each column its row, from 1; column 0 is where a new row starts.
    let mut row_of = vec![0usize; n + 1];
    let mut way = vec![0usize; n + 1];
    for row in 1..=n {
        row_of[0] = row;
        let mut column = 0;
        let mut least = vec![i64::MAX; n + 1];
        let mut seen = vec![false; n + 1];
        while row_of[column] != 0 {
            seen[column] = true;
            let at = row_of[column];
            let (mut delta, mut next) = (i64::MAX, 0);
            for other in (1..=n).filter(|other| !seen[*other]) {
                let cost = -worth[at - 1][other - 1] - by_row[at] - by_column[other];
                if cost < least[other] {
                    (least[other], way[other]) = (cost, column);
                }
                if least[other] < delta {
                    (delta, next) = (least[other], other);
                }
            }
            for other in 0..=n {
                match seen[other] {
                    true => {
                        by_row[row_of[other]] += delta;
                        by_column[other] -= delta;
                    }
                    false if least[other] < i64::MAX => least[other] -= delta,
                    false => {}
                }
            }
            column = next;
        }
        while column != 0 {
            row_of[column] = row_of[way[column]];
            column = way[column];
        }
    }
    (1..=n).map(|column| row_of[column] - 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(worth: &[Vec<i64>], rows: &[usize]) -> i64 {
        rows.iter().enumerate().map(|(column, row)| worth[*row][column]).sum()
    }

    fn greatest(worth: &[Vec<i64>], column: usize, used: &mut Vec<bool>) -> i64 {
        if column == worth.len() {
            return 0;
        }
        let mut most = i64::MIN;
        for row in 0..worth.len() {
            if !std::mem::replace(&mut used[row], true) {
                most = most.max(worth[row][column] + greatest(worth, column + 1, used));
                used[row] = false;
            }
        }
        most
    }

    proptest::proptest! {
        #[test]
        fn nothing_is_better(cells in proptest::collection::vec(-9i64..9, 25), n in 1usize..6) {
            let worth: Vec<Vec<i64>> = cells.chunks(5).take(n).map(|row| row[..n].to_vec()).collect();
            let rows = best(&worth);
            let mut sorted = rows.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..n).collect::<Vec<_>>());
            assert_eq!(sum(&worth, &rows), greatest(&worth, 0, &mut vec![false; n]));
        }
    }

    #[test]
    fn no_domains_are_none() {
        assert!(best(&[]).is_empty());
    }
}
