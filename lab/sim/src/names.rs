//! Suggestions for unknown names.

/// Least similarity of a suggestion (Jaro and Winkler's measure, 0 to 1).
const NEAR: f64 = 0.7;

/// A name that nothing has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownName {
    #[error("unknown {what} `{name}`; did you mean `{near}`?")]
    Near { what: &'static str, name: String, near: String },
    #[error("unknown {what} `{name}`; there are {}", .known.join(", "))]
    Far { what: &'static str, name: String, known: Vec<String> },
}

pub(crate) fn unknown<'a>(what: &'static str, name: &str, known: impl Iterator<Item = &'a str>) -> UnknownName {
    let mut known: Vec<&str> = known.collect();
    known.dedup();
    let short = |candidate: &'a str| candidate.rsplit('.').next().unwrap_or(candidate);
    let near =
        |candidate: &'a str| strsim::jaro_winkler(candidate, name).max(strsim::jaro_winkler(short(candidate), name));
    let nearest = known.iter().max_by(|a, b| near(a).total_cmp(&near(b))).filter(|nearest| near(nearest) > NEAR);
    let name = name.to_owned();
    match nearest {
        Some(near) => UnknownName::Near { what, name, near: (*near).to_owned() },
        None => UnknownName::Far { what, name, known: known.into_iter().map(str::to_owned).collect() },
    }
}
