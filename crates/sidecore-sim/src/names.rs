//! Suggestions for unknown names.

/// Least similarity of a suggestion (Jaro and Winkler's measure, 0 to 1).
const NEAR: f64 = 0.7;

/// The message for an unknown name, with the nearest known one.
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
