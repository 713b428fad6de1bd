//! `sidecore set`: changes a running service, all of it or nothing, and says what is in force afterwards.

use crate::args::Set;
use crate::output;
use crate::top::in_force;
use sidecore::client::{Admin, Options};
use sidecore::config::{Setting, counters_beside};
use sidecore::counters::Snapshot;

/// Applies the settings after all of them were read: first those of devices, which the service may refuse, then policies, which
/// cannot fail. So nothing is changed where the first is refused.
pub(crate) fn run(args: &Set) -> Result<(), String> {
    let mut settings = Vec::new();
    for text in &args.settings {
        let may_fail = !matches!(Setting::parse(text)?, Setting::Notify(..) | Setting::Balance(_) | Setting::Order(_));
        settings.push((!may_fail, text));
    }
    settings.sort_by_key(|(last, _)| *last);
    let options = Options { socket: args.socket.clone(), ..Options::default() };
    let mut service = Admin::connect(&options).map_err(|error| error.to_string())?;
    for (done, (_, setting)) in settings.iter().enumerate() {
        let before: Vec<&str> = settings[..done].iter().map(|(_, text)| text.as_str()).collect();
        let refused = |error| format!("{setting}: {error}; {}", in_effect(&before));
        if let Some(note) = service.set(setting).map_err(refused)? {
            output::tell(format_args!("warning: {note}"));
        }
    }
    match Snapshot::read(&counters_beside(&args.socket)) {
        Ok(now) => output::print(&format!("{}\n", in_force(&now)))
            .map_err(|error| format!("what was set is in force, but this could not be said: {error}")),
        // Its counters may be elsewhere, as its configuration says.
        Err(_) => Ok(()),
    }
}

fn in_effect(before: &[&str]) -> String {
    if before.is_empty() {
        "nothing was changed".to_owned()
    } else {
        format!("in effect already: {}", before.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_effect_before_a_refusal_is_said() {
        assert_eq!(in_effect(&[]), "nothing was changed");
        assert_eq!(
            in_effect(&["device.w=drain", "device.x=drain"]),
            "in effect already: device.w=drain device.x=drain"
        );
    }
}
