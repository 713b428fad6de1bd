//! Parameters of a system, and the values that plans give them.

use crate::names::unknown;
use sidecore_core::time::Nanos;
use std::fmt::{self, Display, Formatter};

/// Something about a system that can be set.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Part and name, as in `guest.poll_us`; a unit ends the name.
    pub name: &'static str,
    /// Unit in words, as a parameter file must state it: `us`, `ns/B`, `1` for a plain number.
    pub unit: &'static str,
    /// What it may be.
    pub kind: Kind,
}

/// What a parameter may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A number between these, both included.
    Number(f64, f64),
    /// A whole number between these, both included.
    Count(u64, u64),
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// A parameter's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Of a number or a count.
    Number(f64),
    /// Of a choice.
    Word(&'static str),
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The vendor states it.
    Datasheet,
    /// The published report states it.
    Published,
    /// It was measured.
    Measured,
    /// It was chosen so that published cells come out.
    Fitted,
    /// A guess in the usual range; results hardly depend on it.
    Assumed,
}

impl Origin {
    /// All, with their names in parameter files.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Datasheet, "datasheet"),
        (Self::Published, "published"),
        (Self::Measured, "measured"),
        (Self::Fitted, "fitted"),
        (Self::Assumed, "assumed"),
    ];
}

impl Display for Origin {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(origin, _)| origin == self).map_or("", |(_, name)| name);
        f.pad(name)
    }
}

/// Who set a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A parameter file or the plan, in full: where it comes from and what it means.
    Documented(Origin, String),
    /// The plan, as a plain value.
    Plan,
    /// The command line.
    CommandLine,
}

/// Values of all parameters of a system.
#[derive(Clone, Debug)]
pub struct Settings {
    parameters: &'static [Parameter],
    values: Vec<Option<(Value, Source)>>,
}

impl Settings {
    /// Nothing is set.
    pub fn new(parameters: &'static [Parameter]) -> Self {
        Self { parameters, values: vec![None; parameters.len()] }
    }

    /// Sets a parameter from its text.
    ///
    /// # Errors
    ///
    /// If there is no such parameter or the text is no value for it: what is wrong, and what is accepted.
    pub fn set(&mut self, name: &str, text: &str, source: Source) -> Result<(), String> {
        let index = self.find(name)?;
        let value = self.parameters[index].value(text)?;
        self.values[index] = Some((value, source));
        Ok(())
    }

    /// Number of the parameter of that name, in full or shortened to what follows the last point.
    ///
    /// # Errors
    ///
    /// If there is none, or the short name fits several.
    pub fn find(&self, name: &str) -> Result<usize, String> {
        if let Some(index) = self.parameters.iter().position(|parameter| parameter.name == name) {
            return Ok(index);
        }
        let short = |parameter: &Parameter| parameter.name.rsplit('.').next() == Some(name);
        let mut found = (0..self.parameters.len()).filter(|index| short(&self.parameters[*index]));
        match (found.next(), found.next()) {
            (Some(index), None) => Ok(index),
            (Some(a), Some(b)) => {
                Err(format!("`{name}` is short for {} and {}", self.parameters[a].name, self.parameters[b].name))
            }
            _ => self
                .count_of(name)
                .ok_or_else(|| unknown("parameter", name, self.parameters.iter().map(|parameter| parameter.name))),
        }
    }

    /// The parameter that counts what the plural names: `card.count` for `cards`.
    fn count_of(&self, plural: &str) -> Option<usize> {
        let part = plural.strip_suffix('s')?;
        self.parameters.iter().position(|parameter| parameter.name.strip_suffix(".count") == Some(part))
    }

    /// The parameters, with what is set.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Parameter, Option<&(Value, Source)>)> {
        self.parameters.iter().zip(self.values.iter().map(Option::as_ref))
    }

    /// The parameter of that number.
    pub fn parameter(&self, index: usize) -> &'static Parameter {
        &self.parameters[index]
    }

    /// Parameters that have no value.
    pub fn missing(&self) -> Vec<&'static str> {
        self.iter().filter(|(_, value)| value.is_none()).map(|(parameter, _)| parameter.name).collect()
    }

    /// Value of a number or count, in the parameter's own unit.
    ///
    /// # Panics
    ///
    /// If the system has no such parameter, or it is not set: a mistake in the system, since plans are checked.
    pub fn number(&self, name: &str) -> f64 {
        match self.value(name) {
            Value::Number(number) => number,
            Value::Word(word) => panic!("{name} is {word} and no number"),
        }
    }

    /// Value of a count.
    pub fn count(&self, name: &str) -> u64 {
        self.number(name) as u64
    }

    /// Value of a time, in ns whatever its unit.
    pub fn nanos(&self, name: &str) -> Nanos {
        (self.number(name) * self.scale(name)).round() as Nanos
    }

    /// Value of a time, in ns whatever its unit, with its fraction.
    pub fn exact_nanos(&self, name: &str) -> f64 {
        self.number(name) * self.scale(name)
    }

    /// Value of a choice.
    pub fn word(&self, name: &str) -> &'static str {
        match self.value(name) {
            Value::Word(word) => word,
            Value::Number(number) => panic!("{name} is {number} and no word"),
        }
    }

    fn scale(&self, name: &str) -> f64 {
        match self.parameters.iter().find(|parameter| parameter.name == name).map(|parameter| parameter.unit) {
            Some("ns") => 1.0,
            Some("us") => 1e3,
            Some("ms") => 1e6,
            Some("s") => 1e9,
            other => panic!("{name} is no time but {other:?}"),
        }
    }

    fn value(&self, name: &str) -> Value {
        let index = self.parameters.iter().position(|parameter| parameter.name == name);
        let set = index.and_then(|index| self.values[index].as_ref());
        set.unwrap_or_else(|| panic!("the system has no parameter {name}, or it is not set")).0
    }
}

impl Parameter {
    /// The value that a text stands for.
    fn value(&self, text: &str) -> Result<Value, String> {
        let wrong = |accepted: String| format!("`{text}` is no value for {}: {accepted}", self.name);
        match self.kind {
            Kind::Choice(words) => {
                let word = words.iter().find(|word| **word == text);
                word.map(|word| Value::Word(word)).ok_or_else(|| wrong(format!("write {}", words.join(", "))))
            }
            Kind::Number(least, most) => {
                let number = text.parse().ok().filter(|number: &f64| (least..=most).contains(number));
                number
                    .map(Value::Number)
                    .ok_or_else(|| wrong(format!("write a number from {least} to {most} ({})", self.unit)))
            }
            Kind::Count(least, most) => {
                let number = text.parse().ok().filter(|number| (least..=most).contains(number));
                number
                    .map(|number: u64| Value::Number(number as f64))
                    .ok_or_else(|| wrong(format!("write a whole number from {least} to {most} ({})", self.unit)))
            }
        }
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => Display::fmt(number, f),
            Self::Word(word) => f.pad(word),
        }
    }
}
