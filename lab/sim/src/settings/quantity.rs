//! Types of settings: numbers with unit and limits, and policies of the service; and a deserializer of settings by
//! name.

use serde::de::value::{self, MapDeserializer};
use serde::de::{Deserialize, Deserializer, Error, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use sidecore_core::policy::balance::Balance;
use sidecore_core::policy::notify::Notify;
use sidecore_core::time::Nanos;
use std::fmt::{self, Debug, Display, Formatter};
use std::str::FromStr;

/// A number in this unit, between these limits, inclusive. Limits are in ns for times, in Mbit/s for rates and in
/// hundredths for other numbers with fractions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity<U: Unit, const MIN: u64, const MAX: u64>(U::Value);

pub(crate) trait Unit {
    type Value: Copy + Debug + Display + PartialOrd + FromStr;
    const NAME: &'static str;
    const KIND: &'static str;

    fn limit(limit: u64) -> Self::Value;
}

macro_rules! units {
    ($($unit:ident $alias:ident $name:literal $kind:literal $value:ident $($limits:literal)?;)*) => {$(
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum $unit {}

        impl Unit for $unit {
            type Value = $value;
            const NAME: &'static str = $name;
            const KIND: &'static str = $kind;

            fn limit(limit: u64) -> $value {
                limit as $value $(/ $limits)?
            }
        }

        pub(crate) type $alias<const MIN: u64, const MAX: u64> = Quantity<$unit, MIN, MAX>;
    )*};
}

units! {
    Things Count "1" "whole number" u32;
    Byte Bytes "B" "whole number" u32;
    Kibibyte KiB "KiB" "whole number" u32;
    Bit Bits "bit" "whole number" u32;
    Megahertz MHz "MHz" "whole number" u32;
    Part Ratio "1" "number" f64 1e2;
    Nanosecond Ns "ns" "number" f64;
    Microsecond Us "us" "number" f64 1e3;
    Millisecond Ms "ms" "number" f64 1e6;
    NanosecondPerByte NsPerByte "ns/B" "number" f64 1e2;
    PerSecond Rate "1/s" "number" f64;
    MegabitPerSecond Mbit "Mbit/s" "number" f64;
    GigabitPerSecond Gbit "Gbit/s" "number" f64 1e3;
}

impl<U: Unit, const MIN: u64, const MAX: u64> Quantity<U, MIN, MAX> {
    pub(crate) fn get(self) -> U::Value {
        self.0
    }
}

impl<const MIN: u64, const MAX: u64> Us<MIN, MAX> {
    pub(crate) fn ns(self) -> f64 {
        self.0 * 1e3
    }

    pub(crate) fn nanos(self) -> Nanos {
        self.ns().round() as Nanos
    }
}

impl<const MIN: u64, const MAX: u64> Ms<MIN, MAX> {
    pub(crate) fn nanos(self) -> Nanos {
        (self.0 * 1e6).round() as Nanos
    }
}

impl<'de, U: Unit, const MIN: u64, const MAX: u64> Deserialize<'de> for Quantity<U, MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (least, most) = (U::limit(MIN), U::limit(MAX));
        let read = |text: &str| {
            let number = text.parse().ok().filter(|number| (least..=most).contains(number));
            // A number without a unit has the unit 1.
            let unit = if U::NAME == "1" { String::new() } else { format!(" ({})", U::NAME) };
            number.map(Self).ok_or_else(|| format!("write a {} from {least} to {most}{unit}", U::KIND))
        };
        deserializer.deserialize_newtype_struct(U::NAME, Reading(Self(least), read))
    }
}

pub(crate) fn notify<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Notify, D::Error> {
    deserializer.deserialize_newtype_struct(Things::NAME, Reading(Notify::Park, Notify::parse))
}

pub(crate) fn balance<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Balance, D::Error> {
    deserializer.deserialize_newtype_struct(Things::NAME, Reading(Balance::Eft, Balance::parse))
}

struct Reading<T, F>(T, F);

impl<T, W: Display, F: FnOnce(&str) -> Result<T, W>> Visitor<'_> for Reading<T, F> {
    type Value = T;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("the text of a setting")
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Ok(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.1)(text).map_err(E::custom)
    }
}

/// Deserializes a typed struct: parts are structs in it, settings are [quantities](Quantity), policies and enums of
/// words.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    name: String,
    text: &'a dyn Fn(&str, &'static str) -> Option<String>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a dyn Fn(&str, &'static str) -> Option<String>) -> Self {
        Self { name: String::new(), text }
    }

    fn of(&self, field: &str) -> Self {
        let name = if self.name.is_empty() { field.to_owned() } else { format!("{}.{field}", self.name) };
        Self { name, text: self.text }
    }

    fn wrong(&self, text: &str, accepted: &str) -> value::Error {
        value::Error::custom(format!("`{text}` is no value for {}: {accepted}", self.name))
    }
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = value::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, value::Error> {
        visitor.visit_map(MapDeserializer::new(fields.iter().map(|field| (*field, self.of(field)))))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        unit: &'static str,
        visitor: V,
    ) -> Result<V::Value, value::Error> {
        match (self.text)(&self.name, unit) {
            None => visitor.visit_unit(),
            Some(text) => visitor.visit_str(&text).map_err(|error: value::Error| self.wrong(&text, &error.to_string())),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, value::Error> {
        let text = (self.text)(&self.name, "1").unwrap_or_else(|| words[0].to_owned());
        let known = words.iter().find(|word| **word == text);
        let word = known.ok_or_else(|| self.wrong(&text, &format!("write {}", words.join(", "))))?;
        visitor.visit_enum((*word).into_deserializer())
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, value::Error> {
        Err(value::Error::custom(format!("{} is a setting without a unit and limits", self.name)))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

impl IntoDeserializer<'_, value::Error> for Reader<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
