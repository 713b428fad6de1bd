//! A bake-off as text.

use super::{Bakeoff, Line, Summary};
use std::fmt::{self, Display, Formatter};

impl Display for Bakeoff {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "pools  load  policy       stable  mean <= 1.1  p99 <= 1.1  worst p99")?;
        for summary in self.summaries() {
            pools(f, &summary)?;
        }
        writeln!(f, "\ncase        load       policy       order     stable  carried   mean us    p99 us  p99 / best")?;
        self.lines.iter().filter(|line| line.scenario != super::cases::POOLS).try_for_each(|line| single(f, line))
    }
}

fn pools(f: &mut Formatter<'_>, summary: &Summary) -> fmt::Result {
    let Summary { load, balance, pools, stable, near_mean, near_p99, worst } = *summary;
    let worst = if stable > 0 { format!("{worst:.2}") } else { "-".to_owned() };
    let policy = balance.name();
    writeln!(f, "{pools:>5}  {load:>4.2}  {policy:<11}  {stable:>6}  {near_mean:>11}  {near_p99:>10}  {worst:>9}")
}

fn single(f: &mut Formatter<'_>, line: &Line) -> fmt::Result {
    let load = line.load.map_or_else(|| "saturated".to_owned(), |load| format!("{load:.2}"));
    let (case, policy, order) = (line.scenario, line.balance.name(), line.order.name());
    write!(f, "{case:<10}  {load:<9}  {policy:<11}  {order:<8}  ")?;
    let (mean, p99, carried) = (line.mean / 1e3, line.p99 / 1e3, line.carried);
    match line.ratio {
        Some((_, ratio)) => writeln!(f, "yes     {carried:>7.3}  {mean:>8.1}  {p99:>8.1}  {ratio:>10.2}"),
        None => writeln!(f, "no      {carried:>7.3}         -         -           -"),
    }
}
