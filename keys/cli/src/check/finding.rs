//! One line of the command's output.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FindingState {
    Ok,
    Lacks,
    Unknown,
}

#[derive(Debug, Serialize)]
pub(super) struct Topic {
    pub(super) subject: &'static str,
    pub(super) promise: &'static str,
    /// `true`: a promise is broken without it. `false`: only speed or comfort is lost.
    pub(super) breaks: bool,
    pub(super) remedy: &'static str,
}

/// Text of a file of the system, by its path. `None`: it cannot be read.
pub(super) type Text<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Defines topics: name, subject, the promise behind `breaks` or the purpose behind `for`, and the remedy.
macro_rules! topics {
    ($($name:ident: $subject:literal, $weight:tt $promise:literal, do $remedy:literal;)*) => {
        $(static $name: $crate::check::finding::Topic = $crate::check::finding::Topic {
            subject: $subject,
            promise: $promise,
            breaks: topics!(@$weight),
            remedy: $remedy,
        };)*
    };
    (@breaks) => { true };
    (@for) => { false };
}
pub(super) use topics;

#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) state: FindingState,
    #[serde(flatten)]
    topic: &'static Topic,
    pub(super) found: String,
}

impl Topic {
    pub(super) fn is(&'static self, state: FindingState, found: impl Into<String>) -> Finding {
        Finding { state, topic: self, found: found.into() }
    }

    pub(super) fn ok_if(&'static self, fine: bool, found: impl Into<String>) -> Finding {
        self.is(if fine { FindingState::Ok } else { FindingState::Lacks }, found)
    }

    pub(super) fn of<T>(&'static self, read: Option<T>, judge: impl FnOnce(T) -> (bool, String)) -> Finding {
        match read.map(judge) {
            Some((fine, found)) => self.ok_if(fine, found),
            None => self.is(FindingState::Unknown, "nothing to be found"),
        }
    }
}

impl Finding {
    pub(super) fn breaks_a_promise(&self) -> bool {
        self.state == FindingState::Lacks && self.topic.breaks
    }

    pub(super) fn text(&self) -> String {
        let Topic { subject, promise, breaks, remedy } = self.topic;
        let line = |state| format!("{state:<8} {subject}: {}\n", self.found);
        let weight = if *breaks { "breaks" } else { "for" };
        match self.state {
            FindingState::Ok => line("ok"),
            FindingState::Lacks => format!("{}         {weight}: {promise}\n         do: {remedy}\n", line("lacks")),
            FindingState::Unknown => format!("{}         for: {promise}\n", line("unknown")),
        }
    }

    pub(super) fn json(&self) -> String {
        // Strings and flags always serialise.
        serde_json::to_string(self).map_or_else(|error| error.to_string(), |text| text + "\n")
    }
}

#[cfg(test)]
pub(super) fn system(files: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> + use<> {
    let files: Vec<(String, String)> = files.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect();
    move |path| files.iter().find(|(name, _)| name == path).map(|(_, text)| text.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    topics! {
        TOPIC: "swap",
            breaks "keys stay in memory",
            do "swapoff -a";
        SPEED: "swap",
            for "keys stay in memory",
            do "swapoff -a";
    }

    #[test]
    fn only_what_lacks_says_what_to_do() {
        assert_eq!(TOPIC.is(FindingState::Ok, "none").text(), "ok       swap: none\n");
        let lacks = TOPIC.is(FindingState::Lacks, "2 GiB").text();
        assert!(lacks.contains("breaks: keys stay") && lacks.contains("do: swapoff -a"), "{lacks}");
        assert!(!TOPIC.of(None::<u32>, |_| (true, String::new())).text().contains("swapoff"));
    }

    #[test]
    fn only_what_lacks_and_breaks_a_promise_counts() {
        assert!(TOPIC.ok_if(false, "").breaks_a_promise());
        assert!(!SPEED.ok_if(false, "").breaks_a_promise());
        assert!(!TOPIC.is(FindingState::Unknown, "").breaks_a_promise());
    }

    #[test]
    fn a_line_of_json_has_all_of_it() {
        let value: serde_json::Value = serde_json::from_str(&TOPIC.ok_if(false, "2 GiB").json()).unwrap();
        assert_eq!((&value["state"], &value["subject"]), (&"lacks".into(), &"swap".into()));
        assert_eq!((&value["found"], &value["breaks"]), (&"2 GiB".into(), &true.into()));
    }
}
