//! Reasons to doubt figures, from a row, the machine and the time of a measurement. Pure; [`crate::host_monitor`] reads the
//! system.

use sidecore_report::{Caveat, Reason, Row, caveat, column};

/// Largest spread of repeats that is not doubtful, as a share of the median.
const MAX_SPREAD: f64 = 0.1;
/// Fewest repeats that are not doubtful.
pub const FEWEST_REPEATS: f64 = 3.0;
/// Largest share of the machine's processor time for other programs.
const MAX_BUSY: f64 = 0.05;
/// Largest share of it for the host.
const MAX_STOLEN: f64 = 0.01;

/// Other programs' and the host's shares of the machine's processor time, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostActivity {
    /// Other programs and the kernel.
    pub busy: f64,
    /// The host of this virtual machine.
    pub stolen: f64,
}

/// Doubts about a row: its spread, and its repeats where `wanted` were to be made.
pub fn of_row(row: &Row, wanted: usize) -> Vec<Caveat> {
    let repeats = row.number(column::REPEATS);
    let stopped = repeats.filter(|repeats| *repeats < wanted as f64);
    let stopped = stopped.map(|repeats| Caveat::new(Reason::Stopped, format!("{repeats} of {wanted} repeats")));
    [stopped, spread(row), few(row, Reason::Repeats, FEWEST_REPEATS)].into_iter().flatten().collect()
}

/// Of a row of `net`, which takes runs of the same until there are `fewest`.
pub fn doubted(row: Row, fewest: f64) -> Row {
    let caveats: Vec<_> = [spread(&row), few(&row, Reason::Runs, fewest)].into_iter().flatten().collect();
    row.with(column::DOUBTS, caveat::to_json(&caveats))
}

fn few(row: &Row, reason: Reason, fewest: f64) -> Option<Caveat> {
    let repeats = row.number(column::REPEATS).filter(|repeats| *repeats < fewest)?;
    Some(Caveat::new(reason, format!("{repeats}, at least {fewest}")))
}

fn spread(row: &Row) -> Option<Caveat> {
    above(Reason::Spread, row.number(column::SPREAD)?, MAX_SPREAD)
}

/// Doubts about a time with other users of the machine. An unknown use raises none.
pub fn of_time(host_activity: Option<HostActivity>) -> Vec<Caveat> {
    let Some(HostActivity { busy, stolen }) = host_activity else { return Vec::new() };
    [above(Reason::Busy, busy, MAX_BUSY), above(Reason::Stolen, stolen, MAX_STOLEN)].into_iter().flatten().collect()
}

fn above(reason: Reason, share: f64, limit: f64) -> Option<Caveat> {
    (share > limit).then(|| Caveat::new(reason, format!("{:.1} %, the limit is {} %", share * 100.0, limit * 100.0)))
}

/// Missing information raises no caveat.
pub fn of_machine(isolated: Option<&str>, allowed: &[usize], governors: &[String]) -> Vec<Caveat> {
    let isolated = isolated.filter(|list| !allowed.iter().any(|core| contains(list, *core)));
    let shared = isolated.map(|_| Caveat::new(Reason::NotOwned, format!("none of the cores {allowed:?} is isolated")));
    let changing = governors.iter().map(|governor| governor.trim()).find(|governor| *governor != "performance");
    let changing = changing.map(|governor| Caveat::new(Reason::Frequency, format!("governor {governor}")));
    let slow = cfg!(debug_assertions).then(|| Caveat::new(Reason::Unoptimised, "a debug build"));
    [slow, shared, changing].into_iter().flatten().collect()
}

fn contains(list: &str, core: usize) -> bool {
    list.trim().split(',').any(|part| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let bounds = low.parse().ok().zip(high.parse().ok());
        bounds.is_some_and(|(low, high): (usize, usize)| (low..=high).contains(&core))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(caveats: &[Caveat]) -> Vec<Reason> {
        caveats.iter().map(|caveat| caveat.reason).collect()
    }

    #[test]
    fn repeats_that_differ_or_are_few_are_doubtful() {
        let row =
            |spread: f64, repeats: u32| Row::default().with(column::SPREAD, spread).with(column::REPEATS, repeats);
        assert!(of_row(&row(0.1, 3), 3).is_empty());
        assert_eq!(of_row(&row(0.41, 3), 3), [Caveat::new(Reason::Spread, "41.0 %, the limit is 10 %")]);
        assert_eq!(reasons(&of_row(&row(0.0, 2), 2)), [Reason::Repeats]);
        assert_eq!(reasons(&of_row(&row(0.5, 2), 5)), [Reason::Stopped, Reason::Spread, Reason::Repeats]);
        assert!(of_row(&Row::default(), 3).is_empty(), "a row without repeats says nothing of them");
    }

    #[test]
    fn processors_that_others_had_are_doubtful() {
        let time = |busy, stolen| reasons(&of_time(Some(HostActivity { busy, stolen })));
        assert!(time(0.05, 0.01).is_empty());
        assert_eq!(time(0.06, 0.0), [Reason::Busy]);
        assert_eq!(time(0.9, 0.02), [Reason::Busy, Reason::Stolen]);
        assert!(of_time(None).is_empty());
    }

    #[test]
    fn cores_are_owned_where_one_of_them_is_isolated() {
        let of = |isolated, allowed: &[usize]| reasons(&of_machine(isolated, allowed, &[])).contains(&Reason::NotOwned);
        assert!(of(Some("\n"), &[0, 1]) && of(Some("4-7,9\n"), &[0, 8]));
        assert!(!of(Some("4-7,9\n"), &[0, 5]) && !of(Some("1\n"), &[0, 1]));
        assert!(!of(None, &[0, 1]), "what the kernel does not say is not doubted");
    }

    #[test]
    fn a_governor_that_changes_the_clock_rate_is_doubtful() {
        let of = |governors: &[&str]| {
            let governors: Vec<String> = governors.iter().map(|governor| format!("{governor}\n")).collect();
            of_machine(None, &[0], &governors).into_iter().find(|caveat| caveat.reason == Reason::Frequency)
        };
        assert_eq!(of(&["performance", "powersave"]).unwrap().seen, "governor powersave");
        assert_eq!((of(&["performance"]), of(&[])), (None, None));
    }
}
