//! The goal of a search as a number to minimise.

use std::str::FromStr;

/// Figures of a run. Unmeasured ones are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    /// Payload, Mbit/s.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Throughput,
    Latency,
    Cpu,
}

/// Weights of the figures, and bounds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Goal {
    weights: Vec<(What, f64)>,
    bounds: Vec<(What, f64)>,
}

/// Exponent of the penalty: exceeding a bound by a factor costs this power of the factor.
const PENALTY: f64 = 10.0;

impl What {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Throughput, "throughput"), (Self::Latency, "latency"), (Self::Cpu, "cpu")];

    fn of(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(what, _)| *what).ok_or_else(|| format!("{name} is none of throughput, latency, cpu"))
    }

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

    pub(super) fn latency() -> Self {
        Self { weights: vec![(What::Latency, 1.0)], bounds: Vec::new() }
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

impl FromStr for Goal {
    type Err = String;

    /// `throughput`, `latency`, `cpu`, or as in `mix:throughput=2,cpu=1,latency<200`: weights, and bounds in Mbit/s, us
    /// and ns for each byte.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some(parts) = text.strip_prefix("mix:") else {
            return Ok(Self { weights: vec![(What::of(text)?, 1.0)], bounds: Vec::new() });
        };
        let mut goal = Self { weights: Vec::new(), bounds: Vec::new() };
        for part in parts.split(',') {
            let at = part.find(['=', '<', '>']).ok_or_else(|| format!("{part} has no =, < or >"))?;
            let what = What::of(&part[..at])?;
            let value: f64 = part[at + 1..].parse().map_err(|_| format!("{part} has no number"))?;
            if !(value.is_finite() && value > 0.0) {
                return Err(format!("the number in {part} is to be larger than 0"));
            }
            match (&part[at..=at], what) {
                ("=", _) => goal.weights.push((what, value)),
                (">", What::Throughput) | ("<", What::Latency | What::Cpu) => goal.bounds.push((what, value)),
                _ => return Err(format!("{part}: throughput is bounded by >, latency and cpu by <")),
            }
        }
        if goal.weights.is_empty() { Err("a mix has at least one weight".to_owned()) } else { Ok(goal) }
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
