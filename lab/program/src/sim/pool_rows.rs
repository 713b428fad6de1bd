//! Rows of `sidecore bench pool` as cases of a plan of the system `pool`.

use super::bench_rows::Case;
use crate::report::{Row, column};
use sidecore::core::session::Class;
use sidecore_sim::plan::Plan;

pub(super) const SCENARIO: &str = "pool";

/// `None`: the plan does not have the row's operation, or the row lacks something.
pub(super) fn case(plan: &Plan, row: &Row) -> Option<Case> {
    let (op, size, load) = (row.text(column::OP)?, row.number(column::SIZE)?, row.number(column::LOAD)?);
    let (notify, offered) = (row.text(column::NOTIFY)?, row.number(column::SENT_PER_S)?);
    let class = Class::from_name(op)?;
    let works: Vec<&str> = plan
        .settings
        .iter()
        .filter_map(|(parameter, _)| parameter.name.strip_prefix("work.")?.strip_suffix(".share"))
        .collect();
    let own = works.iter().copied().filter(|name| class.belongs_to(name)).max_by_key(|name| name.len())?;
    let share = |name: &&str| (format!("work.{name}.share"), u8::from(*name == own).to_string());
    let shares = works.iter().map(share);
    let mut set = vec![("requests.rate_per_s".to_owned(), offered.to_string())];
    set.extend(shares);
    set.push((format!("work.{own}.bytes"), size.to_string()));
    set.push(("host.notify".to_owned(), notify.to_owned()));
    if notify != "spin" {
        // A sleeping sidecore is woken for the first of several answers.
        set.push(("host.interrupt_us".to_owned(), plan.settings.text("host.wake_us")?.to_owned()));
    }
    let median = row.number(column::TOTAL_P50).map(|median| ("p50_us", median));
    let measured = [("rate_per_s", row.number(column::OPS_PER_S)?)].into_iter().chain(median).collect();
    Some(Case { name: format!("pool {op} {size} B, load {load}, {notify}"), set, measured })
}
