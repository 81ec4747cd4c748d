// SPDX-License-Identifier: GPL-2.0-only
//! What a paper's file says once for many: `[common]` for its experiments, `[each]` for figures of every policy.

use toml::{Table, Value};

/// The table without `[common]` and `[each]`: each experiment has the keys of `[common]` that it does not set itself, and
/// a figure with `each = true` stands once for each entry of `[each]`, with `{name}` and `{policy}` filled in.
pub fn expanded(mut paper: Table) -> Table {
    if let Some(Value::Table(common)) = paper.remove("common")
        && let Some(Value::Table(experiments)) = paper.get_mut("experiment")
    {
        for (_, experiment) in experiments.iter_mut() {
            let Value::Table(own) = experiment else { continue };
            for (key, value) in &common {
                own.entry(key).or_insert_with(|| value.clone());
            }
        }
    }
    if let Some(Value::Table(each)) = paper.remove("each")
        && let Some(Value::Array(figures)) = paper.remove("figure")
    {
        let all = figures.into_iter().flat_map(|figure| of_each(figure, &each));
        paper.insert("figure".into(), Value::Array(all.collect()));
    }
    paper
}

/// The figure itself, or one for each policy.
fn of_each(mut figure: Value, each: &Table) -> Vec<Value> {
    let marked = figure.as_table_mut().and_then(|figure| figure.remove("each"));
    if marked != Some(Value::Boolean(true)) {
        return vec![figure];
    }
    let one = |(name, policy): (&String, &Value)| {
        let words = [("{name}", name.as_str()), ("{policy}", policy.as_str().unwrap_or_default())];
        filled_in(&figure, &words)
    };
    each.iter().map(one).collect()
}

/// The value with these words replaced in all its text.
fn filled_in(value: &Value, words: &[(&str, &str); 2]) -> Value {
    match value {
        Value::String(text) => {
            let put = |text: String, (word, by): &(&str, &str)| text.replace(word, by);
            Value::String(words.iter().fold(text.clone(), put))
        }
        Value::Array(all) => Value::Array(all.iter().map(|one| filled_in(one, words)).collect()),
        Value::Table(all) => {
            let all = all.iter().map(|(key, one)| (key.clone(), filled_in(one, words)));
            Value::Table(all.collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Table {
        expanded(text.parse().unwrap())
    }

    #[test]
    fn an_experiment_keeps_what_it_sets_itself() {
        let text = "[common]\ncpus = 8\nnodes = 4\n[experiment.a]\ncpus = 1\n[experiment.b]\n";
        let wanted = "[experiment.a]\ncpus = 1\nnodes = 4\n[experiment.b]\ncpus = 8\nnodes = 4\n";
        assert_eq!(read(text), wanted.parse().unwrap());
    }

    #[test]
    fn a_figure_of_each_policy_names_it_in_all_its_text() {
        let text = "[each]\ncas = 'cas'\npull = 'flsched:pull=true'\n\
                    [[figure]]\nname = 'time-{name}'\neach = true\nmeasure = { of = ['{policy}'] }\n\
                    [[figure]]\nname = 'time-{name}'\n";
        let wanted = "[[figure]]\nname = 'time-cas'\nmeasure = { of = ['cas'] }\n\
                      [[figure]]\nname = 'time-pull'\nmeasure = { of = ['flsched:pull=true'] }\n\
                      [[figure]]\nname = 'time-{name}'\n";
        assert_eq!(read(text), wanted.parse().unwrap());
    }
}
