//! Names that are not known, and those that were meant.

/// A name nearer than this is suggested (Jaro and Winkler's measure, 0 to 1).
const NEAR: f64 = 0.7;

/// `name` is none of those: says so, with the nearest one.
pub(crate) fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.collect();
    known.dedup();
    let short = |candidate: &'a str| candidate.rsplit('.').next().unwrap_or(candidate);
    let near =
        |candidate: &'a str| strsim::jaro_winkler(candidate, name).max(strsim::jaro_winkler(short(candidate), name));
    let nearest = known.iter().max_by(|a, b| near(a).total_cmp(&near(b))).filter(|nearest| near(nearest) > NEAR);
    match nearest {
        Some(nearest) => format!("unknown {what} `{name}`; did you mean `{nearest}`?"),
        None => format!("unknown {what} `{name}`; there are {}", known.join(", ")),
    }
}
