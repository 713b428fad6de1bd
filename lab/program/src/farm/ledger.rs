//! Compares fed and committed events, id by id.

use std::collections::BTreeMap;

const NAMED: usize = 5;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) fed: u64,
    pub(crate) committed: u64,
    /// Ids with neither a result nor a dead letter.
    pub(crate) lost: Vec<String>,
    pub(crate) twice: Vec<String>,
    pub(crate) dead: Vec<String>,
    /// Results of ids that were never fed.
    pub(crate) strange: Vec<String>,
    /// Ids whose result is another event's.
    pub(crate) wrong: Vec<String>,
}

impl Verdict {
    pub(crate) fn of<'a>(
        fed: impl IntoIterator<Item = String>,
        committed: impl IntoIterator<Item = (&'a str, bool)>,
        dead: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut verdict = Self::default();
        let mut times: BTreeMap<String, u32> = fed.into_iter().map(|id| (id, 0)).collect();
        verdict.fed = times.len() as u64;
        for (id, is_right) in committed {
            match times.get_mut(id) {
                Some(times) => *times += 1,
                None => verdict.strange.push(id.to_owned()),
            }
            if !is_right {
                verdict.wrong.push(id.to_owned());
            }
        }
        verdict.dead = dead.into_iter().map(str::to_owned).collect();
        verdict.dead.sort_unstable();
        verdict.dead.dedup();
        for (id, times) in times {
            match times {
                0 if verdict.dead.binary_search(&id).is_err() => verdict.lost.push(id),
                0 => {}
                1 => verdict.committed += 1,
                _ => {
                    verdict.committed += 1;
                    verdict.twice.push(id);
                }
            }
        }
        verdict
    }

    pub(crate) fn is_exactly_once(&self) -> bool {
        self.committed == self.fed && self.complaints().is_empty()
    }

    pub(crate) fn complaints(&self) -> Vec<String> {
        let kinds = [
            (&self.lost, "lost: neither a result nor a dead letter"),
            (&self.twice, "committed twice"),
            (&self.dead, "given up, where nothing fails by itself"),
            (&self.strange, "committed and never fed"),
            (&self.wrong, "with a result that is another event's"),
        ];
        let wrong = kinds.into_iter().filter(|(ids, _)| !ids.is_empty());
        wrong.map(|(ids, what)| format!("{} {what}, e.g. {}", ids.len(), named(ids))).collect()
    }
}

fn named(ids: &[String]) -> String {
    ids.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed() -> Vec<String> {
        ["a-1", "a-2", "a-3"].map(str::to_owned).to_vec()
    }

    fn right<const N: usize>(ids: [&'static str; N]) -> [(&'static str, bool); N] {
        ids.map(|id| (id, true))
    }

    #[test]
    fn each_once_is_right_in_any_order() {
        let verdict = Verdict::of(fed(), right(["a-3", "a-1", "a-2"]), []);
        assert!(verdict.is_exactly_once());
        assert_eq!((verdict.fed, verdict.committed), (3, 3));
        assert_eq!(verdict.complaints(), Vec::<String>::new());
    }

    #[test]
    fn a_lost_one_a_second_one_and_a_strange_one_are_named() {
        let verdict = Verdict::of(fed(), right(["a-3", "a-1", "a-3", "b-1"]), []);
        assert!(!verdict.is_exactly_once());
        assert_eq!((verdict.lost.clone(), verdict.twice.clone()), (vec!["a-2".to_owned()], vec!["a-3".to_owned()]));
        let complaints = verdict.complaints().join("\n");
        assert!(complaints.contains("1 lost: neither a result nor a dead letter, e.g. a-2"), "{complaints}");
        assert!(complaints.contains("1 committed twice, e.g. a-3"), "{complaints}");
        assert!(complaints.contains("1 committed and never fed, e.g. b-1"), "{complaints}");
    }

    #[test]
    fn a_dead_letter_is_not_lost_and_is_not_well() {
        let verdict = Verdict::of(fed(), right(["a-3", "a-1"]), ["a-2"]);
        assert!(!verdict.is_exactly_once() && verdict.lost.is_empty());
        assert_eq!(verdict.dead, ["a-2"]);
    }

    #[test]
    fn a_result_of_another_event_is_wrong() {
        let verdict = Verdict::of(fed(), [("a-1", true), ("a-2", false), ("a-3", true)], []);
        assert!(!verdict.is_exactly_once());
        assert_eq!(verdict.wrong, ["a-2"]);
    }

    #[test]
    fn nothing_fed_and_nothing_committed_is_right() {
        assert!(Verdict::of([], [], []).is_exactly_once());
    }
}
