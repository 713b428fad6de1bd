//! Reasons to doubt figures, from a row, the machine and the time of a measurement. Pure; [`super::host_monitor`] reads the
//! system.

use super::pinning::Pinning;
use crate::report::{Caveat, Reason, Row, column};

/// Largest spread of repeats that is not doubtful, as a share of the median.
const MAX_SPREAD: f64 = 0.1;
const FEWEST_REPEATS: f64 = 3.0;
/// Largest share of the machine's processor time for other programs.
const MAX_BUSY: f64 = 0.05;
/// Largest share of it for the host.
const MAX_STOLEN: f64 = 0.01;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct HostActivity {
    /// Other programs and the kernel.
    pub(super) busy: f64,
    /// The host of this virtual machine.
    pub(super) stolen: f64,
}

pub(super) fn of_row(row: &Row, wanted: usize) -> Vec<Caveat> {
    let repeats = row.number(column::REPEATS);
    let stopped = repeats.filter(|repeats| *repeats < wanted as f64);
    let stopped = stopped.map(|repeats| Caveat::new(Reason::Stopped, format!("{repeats} of {wanted} repeats")));
    let few = repeats.filter(|repeats| *repeats < FEWEST_REPEATS);
    let few = few.map(|repeats| Caveat::new(Reason::Repeats, format!("{repeats}, at least {FEWEST_REPEATS}")));
    [stopped, row.number(column::SPREAD).and_then(spread), few].into_iter().flatten().collect()
}

fn spread(spread: f64) -> Option<Caveat> {
    above(Reason::Spread, spread, MAX_SPREAD)
}

pub(super) fn of_time(host_activity: Option<HostActivity>) -> Vec<Caveat> {
    let Some(HostActivity { busy, stolen }) = host_activity else { return Vec::new() };
    [above(Reason::Busy, busy, MAX_BUSY), above(Reason::Stolen, stolen, MAX_STOLEN)].into_iter().flatten().collect()
}

fn above(reason: Reason, share: f64, limit: f64) -> Option<Caveat> {
    (share > limit).then(|| Caveat::new(reason, format!("{:.1} %, the limit is {} %", share * 100.0, limit * 100.0)))
}

pub(super) fn of_crowd(pinning: &Pinning, clients: usize) -> Option<Caveat> {
    if pinning.is_unknown {
        return None;
    }
    let seen = match pinning.clients.len() {
        0 => "clients and sidecores on one core".to_owned(),
        cores if clients > cores => format!("{clients} clients on {cores} core{}", if cores == 1 { "" } else { "s" }),
        _ => return None,
    };
    Some(Caveat::new(Reason::Crowded, seen))
}

/// Missing information raises no caveat.
pub(super) fn of_machine(isolated: Option<&str>, allowed: &[usize], governors: &[String]) -> Vec<Caveat> {
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
    fn clients_without_cores_are_a_crowd() {
        let pinning = Pinning { clients: vec![0, 1], sidecores: vec![2], is_unknown: false };
        assert_eq!(of_crowd(&pinning, 2), None);
        assert_eq!(of_crowd(&pinning, 8), Some(Caveat::new(Reason::Crowded, "8 clients on 2 cores")));
        assert!(of_crowd(&Pinning::default(), 1).is_some());
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
