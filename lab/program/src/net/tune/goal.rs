//! The goal of a search as a number to minimise.

use crate::args::{Goal, What};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) mbit_per_s: Option<f64>,
    /// Median of round trips at a rate, us.
    pub(super) latency_us: Option<f64>,
    /// CPU time of the machine, ns for each byte of payload.
    pub(super) cpu_ns_per_byte: Option<f64>,
}

impl Figures {
    /// Not worse in any figure, and better in one.
    pub(super) fn beats(&self, other: &Self) -> bool {
        let costs = What::ALL
            .iter()
            .filter_map(|(what, _)| Some((what.cost(what.figure(self)?), what.cost(what.figure(other)?))));
        let costs: Vec<_> = costs.collect();
        costs.iter().all(|(own, other)| own <= other) && costs.iter().any(|(own, other)| own < other)
    }
}

/// Exponent of the penalty: exceeding a bound by a factor costs this power of the factor.
const PENALTY: f64 = 10.0;

impl What {
    fn figure(self, figures: &Figures) -> Option<f64> {
        match self {
            Self::Throughput => figures.mbit_per_s,
            Self::Latency => figures.latency_us,
            Self::Cpu => figures.cpu_ns_per_byte,
        }
    }

    /// Logarithm of the figure with less as better.
    fn cost(self, figure: f64) -> f64 {
        if self == Self::Throughput { -figure.ln() } else { figure.ln() }
    }
}

impl Goal {
    pub(super) fn throughput() -> Self {
        Self { weights: vec![(What::Throughput, 1.0)], bounds: Vec::new() }
    }

    /// Logarithm of the weighted geometric mean of the figures; less is better. `None`: a figure is missing or not a
    /// number.
    pub(super) fn cost(&self, figures: &Figures) -> Option<f64> {
        let mut cost = 0.0;
        for (what, weight) in &self.weights {
            cost += weight * what.cost(what.figure(figures)?);
        }
        cost /= self.weights.iter().map(|(_, weight)| weight).sum::<f64>();
        for (what, bound) in &self.bounds {
            cost += PENALTY * (what.cost(what.figure(figures)?) - what.cost(*bound)).max(0.0);
        }
        cost.is_finite().then_some(cost)
    }

    pub(super) fn needs_streams(&self) -> bool {
        self.names(What::Throughput) || self.names(What::Cpu)
    }

    pub(super) fn needs_trips(&self) -> bool {
        self.names(What::Latency)
    }

    fn names(&self, what: What) -> bool {
        self.weights.iter().chain(&self.bounds).any(|(named, _)| *named == what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(goal: &str, mbit: f64, us: f64, ns: f64) -> Option<f64> {
        let some = |figure: f64| (figure > 0.0).then_some(figure);
        let figures = Figures { mbit_per_s: some(mbit), latency_us: some(us), cpu_ns_per_byte: some(ns) };
        goal.parse::<Goal>().unwrap().cost(&figures)
    }

    fn is_better(goal: &str, one: [f64; 3], other: [f64; 3]) -> bool {
        cost(goal, one[0], one[1], one[2]).unwrap() < cost(goal, other[0], other[1], other[2]).unwrap()
    }

    #[test]
    fn each_goal_wants_its_own_figure_better() {
        assert!(is_better("throughput", [2000.0, 9.0, 9.0], [1000.0, 1.0, 1.0]));
        assert!(is_better("latency", [1.0, 50.0, 9.0], [9.0, 60.0, 1.0]));
        assert!(is_better("cpu", [1.0, 50.0, 0.1], [9.0, 60.0, 0.2]));
    }

    #[test]
    fn in_a_mix_a_factor_of_one_is_worth_a_factor_of_the_other_by_weight() {
        assert!(is_better("mix:throughput=2,cpu=1", [200.0, 1.0, 3.0], [100.0, 1.0, 1.0]));
        assert!(!is_better("mix:throughput=1,cpu=2", [200.0, 1.0, 3.0], [100.0, 1.0, 1.0]));
    }

    #[test]
    fn what_keeps_a_bound_beats_what_breaks_it() {
        let goal = "mix:throughput=1,latency<100";
        assert!(is_better(goal, [1000.0, 99.0, 1.0], [2000.0, 150.0, 1.0]));
        assert!(is_better(goal, [2000.0, 99.0, 1.0], [1000.0, 10.0, 1.0]), "within it nothing is gained");
    }

    #[test]
    fn one_beats_another_where_it_is_nowhere_worse() {
        let figures = |mbit, us| Figures { mbit_per_s: Some(mbit), latency_us: Some(us), cpu_ns_per_byte: None };
        assert!(figures(2.0, 1.0).beats(&figures(1.0, 1.0)) && figures(1.0, 1.0).beats(&figures(1.0, 2.0)));
        assert!(!figures(2.0, 2.0).beats(&figures(1.0, 1.0)) && !figures(1.0, 1.0).beats(&figures(1.0, 1.0)));
    }

    #[test]
    fn what_is_missing_or_broken_has_no_cost_and_bad_goals_are_refused() {
        assert_eq!(cost("mix:throughput=1,latency<100", 1.0, 0.0, 1.0), None);
        for bad in ["speed", "mix:", "mix:latency=0", "mix:latency=x", "mix:latency>3", "mix:latency<3", "mix:cpu"] {
            assert!(bad.parse::<Goal>().is_err(), "{bad}");
        }
    }
}
