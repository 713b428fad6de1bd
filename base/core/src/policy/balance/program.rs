//! The linear program behind prices, and a simplex for it.
//!
//! Requests of kind c are a part `m[c]` of the mix and take `t[c][i]` on device i. With `x[c][i]` the rate at which
//! device i does kind c, the most load that the devices can carry is
//!
//! ```text
//! max load   such that   for each kind:    load m[c] - sum over i of x[c][i]     <= 0      (dual z[c])
//!                        for each device:  sum over c of t[c][i] x[c][i]         <= 1      (dual y[i])
//! ```
//!
//! `y[i]` is the value of a device's time: the additional load that one more of it would carry. By duality the sum of
//! `y` is the load, and `y[i] t[c][i] >= z[c]` for every pair, with equality where device i does any of kind c at the
//! optimum.
//!
//! The tableau is dense and condensed (columns of non-basic variables only; Dantzig, "Linear Programming and
//! Extensions", 1963). All variables at 0 is feasible, so there is no first phase. That start is degenerate, for the
//! kinds' rows are all 0. After a run of pivots that gain nothing, Bland's rule (1977) takes over until one gains,
//! which excludes cycles.

use alloc::vec::Vec;

/// A coefficient this near to 0 is 0: times are scaled to about 1 before.
const TINY: f64 = 1e-9;
/// Pivots of one solution, per row of the tableau. More indicate a failure by rounding.
const PIVOTS_PER_ROW: usize = 40;

/// How far a solution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The budget is used: call again.
    More,
    /// Solved.
    Optimal,
    /// Abandoned after too many pivots; there is no solution to read.
    Abandoned,
}

/// The program, solved a few pivots at a time.
#[derive(Clone, Debug)]
pub struct Program {
    devices: usize,
    kinds: usize,
    /// Nanoseconds per unit of time in the tableau.
    unit: f64,
    /// Row by row: devices, kinds, objective; columns with the right-hand side last.
    cells: Vec<f64>,
    /// Variable of each row, and of each column. See [`Program::slack`] for their numbers.
    rows: Vec<usize>,
    columns: Vec<usize>,
    pivots: usize,
    /// Pivots since the objective grew.
    idle: usize,
}

impl Program {
    /// Memory for that number of devices and kinds. `begin` may be called for up to that number without an
    /// allocation.
    pub fn new(devices: usize, kinds: usize) -> Self {
        let (rows, columns) = (devices + kinds, devices * kinds + 1);
        Self {
            devices: 0,
            kinds: 0,
            unit: 1.0,
            cells: Vec::with_capacity((rows + 1) * (columns + 1)),
            rows: Vec::with_capacity(rows),
            columns: Vec::with_capacity(columns),
            pivots: 0,
            idle: 0,
        }
    }

    /// Sets a program up. `mix`: parts of the kinds, positive. `time(kind, device)`: ns, positive; `None` where the
    /// device cannot do the kind. Each kind must have a device that can do it, or no load can be carried.
    pub fn begin(&mut self, devices: usize, mix: &[f64], time: impl Fn(usize, usize) -> Option<f64>) {
        let kinds = mix.len();
        (self.devices, self.kinds, self.pivots, self.idle) = (devices, kinds, 0, 0);
        self.unit = mean_best(devices, mix, &time);
        let (rows, columns) = (devices + kinds, devices * kinds + 1);
        self.cells.clear();
        self.cells.resize((rows + 1) * (columns + 1), 0.0);
        self.columns.clear();
        self.columns.extend(0..columns);
        self.rows.clear();
        self.rows.extend((0..rows).map(|row| columns + row));
        let load = columns - 1;
        for (kind, part) in mix.iter().enumerate() {
            for device in 0..devices {
                // A column of zeros never enters the basis.
                let Some(time) = time(kind, device) else { continue };
                let column = kind * devices + device;
                self.set(device, column, time / self.unit);
                self.set(devices + kind, column, -1.0);
            }
            self.set(devices + kind, load, *part);
        }
        (0..devices).for_each(|device| self.set(device, columns, 1.0));
        self.set(rows, load, -1.0);
    }

    /// Pivots until it is solved or about `budget` cells were computed anew. A call makes at least one pivot.
    pub fn advance(&mut self, budget: usize) -> Progress {
        let mut spent = 0;
        loop {
            let Some(column) = self.entering() else { return Progress::Optimal };
            // A column without a positive entry arises only by rounding, for load is bounded.
            let Some(row) = self.leaving(column) else { return Progress::Abandoned };
            if self.pivots >= PIVOTS_PER_ROW * (self.rows.len() + 1) {
                return Progress::Abandoned;
            }
            if spent >= budget && spent > 0 {
                return Progress::More;
            }
            spent += self.cells.len();
            self.pivot(row, column);
        }
    }

    /// Sets up and solves in one call. `None`: abandoned.
    pub fn solve(&mut self, devices: usize, mix: &[f64], time: impl Fn(usize, usize) -> Option<f64>) -> Option<f64> {
        self.begin(devices, mix, time);
        (self.advance(usize::MAX) == Progress::Optimal).then(|| self.load())
    }

    /// Most load, requests per ns.
    pub fn load(&self) -> f64 {
        self.cell(self.rows.len(), self.columns.len()) / self.unit
    }

    /// Value of this device's time: additional requests per ns that one more such device would carry.
    pub fn price(&self, device: usize) -> f64 {
        self.dual(device) / self.unit
    }

    /// Cost of one more request of this kind per request of the mix, as a part of the load.
    pub fn value(&self, kind: usize) -> f64 {
        self.dual(self.devices + kind)
    }

    /// Rate of requests of this kind on the device, per ns.
    pub fn rate(&self, kind: usize, device: usize) -> f64 {
        let variable = kind * self.devices + device;
        let row = self.rows.iter().position(|basic| *basic == variable);
        row.map_or(0.0, |row| self.cell(row, self.columns.len()) / self.unit)
    }

    /// Pivots made for this solution.
    pub fn pivots(&self) -> usize {
        self.pivots
    }

    /// Variables are numbered: rates by kind and device, the load, then the slack of each row.
    fn slack(&self, row: usize) -> usize {
        self.columns.len() + row
    }

    fn dual(&self, row: usize) -> f64 {
        let slack = self.slack(row);
        let column = self.columns.iter().position(|variable| *variable == slack);
        column.map_or(0.0, |column| self.cell(self.rows.len(), column).max(0.0))
    }

    fn entering(&self) -> Option<usize> {
        let bland = self.idle > self.rows.len();
        let objective = self.row(self.rows.len());
        let improving = (0..self.columns.len()).filter(|&column| objective[column] < -TINY);
        if bland {
            return improving.min_by_key(|&column| self.columns[column]);
        }
        improving.min_by(|&a, &b| objective[a].total_cmp(&objective[b]))
    }

    fn leaving(&self, column: usize) -> Option<usize> {
        let limit = |row: usize| self.cell(row, self.columns.len()).max(0.0) / self.cell(row, column);
        let mut found: Option<(f64, usize)> = None;
        for row in (0..self.rows.len()).filter(|&row| self.cell(row, column) > TINY) {
            let this = limit(row);
            let better = found.is_none_or(|(least, other)| {
                this < least - TINY || (this <= least + TINY && self.rows[row] < self.rows[other])
            });
            if better {
                found = Some((this, row));
            }
        }
        found.map(|(_, row)| row)
    }

    fn pivot(&mut self, row: usize, column: usize) {
        let width = self.columns.len() + 1;
        let before = self.cell(self.rows.len(), width - 1);
        let inverse = 1.0 / self.cell(row, column);
        let (above, rest) = self.cells.split_at_mut(row * width);
        let (pivot, below) = rest.split_at_mut(width);
        for cell in pivot.iter_mut() {
            *cell *= inverse;
        }
        pivot[column] = inverse;
        for other in above.chunks_exact_mut(width).chain(below.chunks_exact_mut(width)) {
            let factor = core::mem::take(&mut other[column]);
            if factor != 0.0 {
                other.iter_mut().zip(&*pivot).for_each(|(cell, pivot)| *cell -= factor * pivot);
            }
        }
        core::mem::swap(&mut self.rows[row], &mut self.columns[column]);
        self.pivots += 1;
        let gained = self.cell(self.rows.len(), width - 1) > before + TINY;
        self.idle = if gained { 0 } else { self.idle + 1 };
    }

    fn row(&self, row: usize) -> &[f64] {
        let width = self.columns.len() + 1;
        &self.cells[row * width..(row + 1) * width]
    }

    fn cell(&self, row: usize, column: usize) -> f64 {
        self.row(row)[column]
    }

    fn set(&mut self, row: usize, column: usize, value: f64) {
        let width = self.columns.len() + 1;
        self.cells[row * width + column] = value;
    }
}

/// Mean over the mix of the time on the fastest device, the unit of scaled times. 1 if there is none.
fn mean_best(devices: usize, mix: &[f64], time: &impl Fn(usize, usize) -> Option<f64>) -> f64 {
    let best = |kind| (0..devices).filter_map(|device| time(kind, device)).min_by(f64::total_cmp);
    let known = mix.iter().enumerate().filter_map(|(kind, part)| Some((part, best(kind)?)));
    let (parts, sum) = known.fold((0.0, 0.0), |(parts, sum), (part, time)| (parts + part, sum + part * time));
    if sum > 0.0 { sum / parts } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    struct Case {
        mix: Vec<f64>,
        times: Vec<Vec<Option<f64>>>,
    }

    impl Case {
        fn devices(&self) -> usize {
            self.times[0].len()
        }

        fn solve(&self) -> Program {
            let mut program = Program::new(self.devices(), self.mix.len());
            program.solve(self.devices(), &self.mix, |kind, device| self.times[kind][device]).expect("a solution");
            program
        }
    }

    /// Each kind has a device: where chance leaves none, the first.
    fn case(devices: usize, kinds: usize) -> impl Strategy<Value = Case> {
        let log = (2.0..6.0_f64, 0..5_u8).prop_map(|(log, can)| (can > 0).then(|| 10.0_f64.powf(log)));
        let times = prop::collection::vec(prop::collection::vec(log, devices), kinds);
        (prop::collection::vec(0.001..1.0_f64, kinds), times).prop_map(|(mix, mut times)| {
            let sum: f64 = mix.iter().sum();
            for row in times.iter_mut().filter(|row| row.iter().all(Option::is_none)) {
                row[0] = Some(1_000.0);
            }
            Case { mix: mix.into_iter().map(|part| part / sum).collect(), times }
        })
    }

    fn any_case() -> impl Strategy<Value = Case> {
        (1..9_usize, 1..17_usize).prop_flat_map(|(devices, kinds)| case(devices, kinds))
    }

    /// For two prices, the first `part` of their sum: the upper bound of the load by weak duality.
    fn allowed(case: &Case, part: f64) -> f64 {
        let prices = [part, 1.0 - part];
        let cheapest = |times: &[Option<f64>]| {
            let costs = times.iter().zip(prices).filter_map(|(time, price)| Some(time.as_ref()? * price));
            costs.min_by(f64::total_cmp).unwrap()
        };
        let value: f64 = case.mix.iter().zip(&case.times).map(|(part, times)| part * cheapest(times)).sum();
        1.0 / value
    }

    proptest! {
        #[test]
        fn primal_and_dual_agree(case in any_case()) {
            let program = case.solve();
            let load = program.load();
            let near = |a: f64, b: f64, scale: f64| (a - b).abs() <= 1e-6 * scale;
            let prices: f64 = (0..case.devices()).map(|device| program.price(device)).sum();
            prop_assert!(near(prices, load, load));
            let value: f64 = case.mix.iter().enumerate().map(|(kind, part)| part * program.value(kind)).sum();
            prop_assert!(near(value, 1.0, 1.0));
            for device in 0..case.devices() {
                let used: f64 = (0..case.mix.len())
                    .filter_map(|kind| Some(case.times[kind][device]? * program.rate(kind, device)))
                    .sum();
                prop_assert!(used <= 1.0 + 1e-6);
                prop_assert!(near(program.price(device) * (1.0 - used), 0.0, load), "a price only where time is scarce");
            }
            for (kind, part) in case.mix.iter().enumerate() {
                let rates: Vec<f64> = (0..case.devices()).map(|device| program.rate(kind, device)).collect();
                let done: f64 = rates.iter().sum();
                prop_assert!(done >= load * part * (1.0 - 1e-6));
                prop_assert!(near(program.value(kind) * (done - load * part), 0.0, load));
                for (device, rate) in rates.into_iter().enumerate() {
                    let Some(time) = case.times[kind][device] else {
                        prop_assert!(rate == 0.0);
                        continue;
                    };
                    let extra = program.price(device) * time - program.value(kind);
                    prop_assert!(rate >= -1e-9 && extra >= -1e-6 * load * time);
                    prop_assert!(near(rate * extra, 0.0, load * load * time), "a device does what is cheapest there");
                }
            }
        }

        #[test]
        fn two_devices_carry_what_the_best_prices_allow(case in (1..6_usize).prop_flat_map(|kinds| case(2, kinds))) {
            let load = case.solve().load();
            // The bound is a piecewise linear function's inverse: its least value lies where two kinds' lines meet.
            let parts = case.times.iter().filter_map(|times| Some(times[1]? / (times[0]? + times[1]?)));
            let bound = parts.chain([0.0, 1.0]).map(|part| allowed(&case, part)).min_by(f64::total_cmp).unwrap();
            prop_assert!((load / bound - 1.0).abs() < 1e-6, "{load} {bound}");
        }

        #[test]
        fn a_budget_changes_nothing_but_the_number_of_calls(case in any_case(), budget in 0..5_000_usize) {
            let whole = case.solve();
            let mut program = Program::new(case.devices(), case.mix.len());
            program.begin(case.devices(), &case.mix, |kind, device| case.times[kind][device]);
            let mut calls = 1;
            while program.advance(budget) == Progress::More {
                calls += 1;
            }
            prop_assert!(calls <= whole.pivots().max(1));
            prop_assert_eq!((program.load(), program.pivots()), (whole.load(), whole.pivots()));
        }
    }

    #[test]
    fn alike_devices_add_up() {
        let times = vec![vec![Some(100.0); 4]; 3];
        let program = Case { mix: vec![0.2, 0.3, 0.5], times }.solve();
        assert!((program.load() - 0.04).abs() < 1e-12);
        for device in 0..4 {
            assert!((program.price(device) - 0.01).abs() < 1e-12);
        }
    }

    #[test]
    fn each_does_what_it_is_comparatively_good_at() {
        let times = vec![vec![Some(100.0), Some(1_000.0)], vec![Some(1_000.0), Some(1_100.0)]];
        let program = Case { mix: vec![0.9, 0.1], times }.solve();
        assert!(program.rate(0, 1) == 0.0 && program.rate(1, 1) > 0.0 && program.price(0) > program.price(1));
    }

    #[test]
    fn the_largest_program_is_solved_in_bounded_pivots() {
        let time = |kind: usize, device: usize| Some(100.0 + ((kind * 37 + device * 101) % 997) as f64);
        let mut program = Program::new(64, 16);
        let load = program.solve(64, &[1.0 / 16.0; 16], time).unwrap();
        assert!(load > 0.0 && program.pivots() < 1_000, "{}", program.pivots());
    }

    #[test]
    fn a_kind_without_a_device_stops_everything() {
        let mut program = Program::new(1, 2);
        let load = program.solve(1, &[0.5, 0.5], |kind, _| (kind == 0).then_some(10.0));
        assert_eq!(load, Some(0.0));
    }

    #[test]
    fn memory_is_set_aside_once() {
        let mut program = Program::new(5, 7);
        let room = program.cells.capacity();
        program.begin(5, &[1.0; 7], |_, _| Some(1.0));
        assert!(program.cells.len() == room && program.cells.capacity() == room);
    }
}
