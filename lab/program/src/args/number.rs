//! Values of arguments.

use thiserror::Error;

#[derive(Clone, Debug, Error)]
pub(crate) enum BadArgument {
    #[error("{0:?} is no list of CPUs, as 0,2-3 is")]
    Cpus(String),
    #[error("{0:?} is no end of a connection, as 192.0.2.1:443 or [2001:db8::1]:443 is: `ss -tn` shows them")]
    End(String),
    #[error("write 1 to {0} bytes")]
    Bytes(usize),
    #[error("write a whole number from 1 on")]
    Count,
    #[error("write a number above 0")]
    NotPositive,
    #[error("write a percentage from 0.01 to 100")]
    Percent,
    #[error("write a number from 1 to 1000")]
    Factor,
}

pub(super) fn above_0(text: &str) -> Result<f64, BadArgument> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or(BadArgument::NotPositive)
}

pub(super) fn percent(text: &str) -> Result<f64, BadArgument> {
    text.parse().ok().filter(|percent| (0.01..=100.0).contains(percent)).ok_or(BadArgument::Percent)
}

pub(super) fn factor(text: &str) -> Result<f64, BadArgument> {
    text.parse().ok().filter(|factor| (1.0..=1e3).contains(factor)).ok_or(BadArgument::Factor)
}
