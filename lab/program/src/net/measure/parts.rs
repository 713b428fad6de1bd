//! CPU time of counted windows by component.

use crate::net::sampling::{Breakdown, COMPONENTS, Component, Profile, Rules, Share, Whose};

#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    breakdown: Breakdown,
    /// CPU time of everything that ran in the window, us.
    busy_us: f64,
    /// CPU time accounted by the kernel during the sampling, which is a little longer than the window, us.
    accounted_us: f64,
    /// The same by samples; `None`: the samples are not of time.
    sampled_us: Option<f64>,
}

impl Parts {
    /// Samples of the work of those processes and of work for packets. `busy_us`: all CPU time in the window.
    pub(crate) fn of(profile: &Profile, rules: &Rules, processes: &[u32], busy_us: f64) -> Self {
        let breakdown = profile.breakdown(rules, Whose::Of(processes));
        let sampled_us = profile.agreement(&breakdown).map(|agreement| agreement * profile.busy_us);
        Self { breakdown, busy_us, accounted_us: profile.busy_us, sampled_us }
    }

    pub(crate) fn add(&mut self, more: &Self) {
        self.breakdown.add(&more.breakdown);
        self.busy_us += more.busy_us;
        self.accounted_us += more.accounted_us;
        self.sampled_us = self.sampled_us.zip(more.sampled_us).map(|(own, more)| own + more);
    }

    /// CPU time of the path by component, us, with sampling bounds. Empty if nothing was sampled.
    pub(crate) fn us(&self) -> Vec<(Component, Share)> {
        let of = |component| Some((component, self.part_us(self.breakdown.samples(component))?));
        COMPONENTS.into_iter().filter_map(of).collect()
    }

    pub(crate) fn unplaced_us(&self) -> Option<Share> {
        self.part_us(self.breakdown.unplaced)
    }

    pub(crate) fn unplaced(&self) -> Option<f64> {
        self.breakdown.share(self.breakdown.unplaced).map(|share| share.seen)
    }

    pub(crate) fn unplaced_functions(&self) -> &[(String, u64)] {
        &self.breakdown.unplaced_functions
    }

    pub(crate) fn sampled(&self) -> Option<f64> {
        Some(self.sampled_us? / self.accounted_us).filter(|ratio| ratio.is_finite())
    }

    fn part_us(&self, samples: u64) -> Option<Share> {
        let breakdown = &self.breakdown;
        let ran = breakdown.of_path() + breakdown.elsewhere;
        let path_us = self.busy_us * breakdown.of_path() as f64 / ran.max(1) as f64;
        breakdown.share(samples).map(|share| share.of_all(path_us))
    }
}
