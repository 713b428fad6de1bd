//! Settings of a system: by name and as text here, as typed structs in the system itself.

mod quantity;
mod records;

pub(crate) use quantity::{
    Bits, Bytes, Count, Gbit, KiB, MHz, Mbit, Ms, Ns, NsPerByte, Rate, Ratio, Us, balance, notify,
};
pub(crate) use records::Records;

use crate::names::{UnknownName, unknown};
use quantity::Reader;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde::de::value::Error;
use std::cell::RefCell;
use std::fmt::{self, Display, Formatter};
use std::path::Path;

/// A parameter of a system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Part and name, as in `guest.poll_us`; the name ends with its unit.
    pub name: String,
    /// Unit in words, as a parameter file must state it: `us`, `ns/B`, `1` for a plain number.
    pub unit: &'static str,
    /// Value without an entry in the plan. `None`: the plan must have one.
    pub default: Option<&'static str>,
    /// Its meaning, in words; empty where a parameter file states it.
    pub meaning: &'static str,
}

/// Origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The vendor states it.
    Datasheet,
    /// The published report states it.
    Published,
    /// It was measured.
    Measured,
    /// It was chosen to reproduce published cells.
    Fitted,
    /// A guess in the usual range; results hardly depend on it.
    Assumed,
}

impl Parameter {
    pub(crate) fn all_of<M: DeserializeOwned>() -> Vec<Self> {
        let found = RefCell::new(Vec::new());
        let none = |name: &str, unit| {
            found.borrow_mut().push(Self { name: name.to_owned(), unit, default: None, meaning: "" });
            None
        };
        M::deserialize(Reader::new(&none)).map(drop).expect("a value stands where none is given");
        found.into_inner()
    }
}

impl Display for Origin {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_lowercase())
    }
}

/// Source of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A parameter file or the plan, with origin and meaning.
    Documented(Origin, String),
    /// The system, as the plan has no value.
    Default,
    /// The plan, as a plain value.
    Plan,
    /// The command line.
    CommandLine,
}

/// Why a parameter does not take a value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingError {
    /// No parameter has this name.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// Several parameters have this short name.
    #[error("`{name}` is short for {} and {}", .full[0], .full[1])]
    Ambiguous {
        /// The short name.
        name: String,
        /// The first two full names.
        full: [String; 2],
    },
    /// The text is no value for the parameter: with the accepted values.
    #[error(transparent)]
    Value(#[from] Error),
}

/// Values of the parameters of a system.
#[derive(Clone, Debug)]
pub struct Settings {
    check: fn(&Self) -> Result<(), Error>,
    entries: Vec<(Parameter, Option<(String, Source)>)>,
    records: Records,
}

impl Settings {
    pub(crate) fn new(parameters: Vec<Parameter>, check: fn(&Self) -> Result<(), Error>) -> Self {
        let entries = parameters.into_iter().map(|parameter| (parameter, None)).collect();
        Self { check, entries, records: Records::default() }
    }

    /// With the folder of records that its values name.
    pub(crate) fn beside(self, folder: &Path) -> Self {
        Self { records: Records::beside(folder), ..self }
    }

    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    pub(crate) fn read<M: DeserializeOwned>(&self) -> Result<M, Error> {
        M::deserialize(Reader::new(&|name, _| self.text(name).map(str::to_owned)))
    }

    /// Sets a parameter from its text.
    ///
    /// # Errors
    ///
    /// If the parameter does not exist or the text is not a value for it: the error, and the accepted values.
    pub fn set(&mut self, name: &str, text: &str, source: Source) -> Result<(), SettingError> {
        let index = self.find(name)?;
        let before = self.entries[index].1.replace((text.to_owned(), source));
        (self.check)(self).map_err(|error| {
            self.entries[index].1 = before;
            SettingError::from(error)
        })
    }

    /// Gives all parameters without a value their default, if they have one.
    pub(crate) fn fill(&mut self) -> Result<(), SettingError> {
        for (parameter, value) in &mut self.entries {
            if let (None, Some(default)) = (&value, parameter.default) {
                *value = Some((default.to_owned(), Source::Default));
            }
        }
        Ok((self.check)(self)?)
    }

    /// Whether parameters have names within this one.
    pub(crate) fn has_part(&self, name: &str) -> bool {
        self.iter().any(|(known, _)| known.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
    }

    /// A name is full, or shortened to the part after the last dot.
    pub(crate) fn find(&self, name: &str) -> Result<usize, SettingError> {
        let names = || self.entries.iter().map(|(parameter, _)| parameter.name.as_str());
        if let Some(index) = names().position(|known| known == name) {
            return Ok(index);
        }
        let mut found = (0..).zip(names()).filter(|(_, known)| known.rsplit('.').next() == Some(name));
        match (found.next(), found.next()) {
            (Some((index, _)), None) => Ok(index),
            (Some((_, a)), Some((_, b))) => {
                Err(SettingError::Ambiguous { name: name.to_owned(), full: [a, b].map(str::to_owned) })
            }
            // `cards` counts what `card.count` does.
            _ => name
                .strip_suffix('s')
                .and_then(|part| names().position(|known| known.strip_suffix(".count") == Some(part)))
                .ok_or_else(|| unknown("parameter", name, names()).into()),
        }
    }

    /// The parameters, each with text and source if it is set.
    pub fn iter(&self) -> impl Iterator<Item = (&Parameter, Option<&(String, Source)>)> {
        self.entries.iter().map(|(parameter, value)| (parameter, value.as_ref()))
    }

    pub(crate) fn parameter(&self, index: usize) -> &Parameter {
        &self.entries[index].0
    }

    /// The text of a parameter's setting.
    pub fn text(&self, name: &str) -> Option<&str> {
        let (_, value) = self.iter().find(|(parameter, _)| parameter.name == name)?;
        value.map(|(text, _)| text.as_str())
    }

    pub(crate) fn accepts(&self, name: &str, text: &str) -> Result<(), SettingError> {
        self.clone().set(name, text, Source::Plan)
    }
}

/// Declares the typed settings of a system, read by serde: `part: Type { name: kind, … }`, or `part: Type;` for a
/// struct declared in another place; after them, the words of choices. A part's struct takes its attributes as inner
/// ones.
macro_rules! settings {
    (
        $(#[$system_doc:meta])*
        $system:ident {
            $(
                $(#[$part_doc:meta])*
                $part:ident: $type:ident $({ $(#![$of_part:meta])* $($(#[$doc:meta])* $name:ident: $kind:ty,)* })? $(;)?
            )*
        }
        $($(#[$of_choice:meta])* $choice:ident = $($word:ident)|+;)*
    ) => {
        $(#[$system_doc])*
        #[derive(Clone, Copy, Debug, serde::Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub(in crate::system) struct $system {
            $($(#[$part_doc])* pub(in crate::system) $part: $type,)*
        }

        $($(
            #[derive(Clone, Copy, Debug, serde::Deserialize)]
            $(#[$of_part])*
            pub(in crate::system) struct $type {
                $($(#[$doc])* pub(in crate::system) $name: $kind,)*
            }
        )?)*

        $(
            #[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
            #[serde(rename_all = "kebab-case")]
            $(#[$of_choice])*
            pub(in crate::system) enum $choice { $($word),+ }
        )*
    };
}

pub(crate) use settings;
