//! Settings by name, as serde sees them.

use serde::de::value::{Error, MapDeserializer};
use serde::de::{Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

/// Gives a typed struct its values: parts are structs in it, settings are [quantities](super::quantity), policies and enums
/// of words.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    /// What is read here, by its full name.
    name: String,
    /// The text that is set for a name; it is also told the unit.
    text: &'a dyn Fn(&str, &'static str) -> Option<String>,
}

impl<'a> Reader<'a> {
    /// Reads the whole. `text` answers for a setting's name and unit what it is set to.
    pub(crate) fn new(text: &'a dyn Fn(&str, &'static str) -> Option<String>) -> Self {
        Self { name: String::new(), text }
    }

    fn of(&self, field: &str) -> Self {
        let name = if self.name.is_empty() { field.to_owned() } else { format!("{}.{field}", self.name) };
        Self { name, text: self.text }
    }

    fn wrong(&self, text: &str, accepted: &str) -> Error {
        Error::custom(format!("`{text}` is no value for {}: {accepted}", self.name))
    }
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(MapDeserializer::new(fields.iter().map(|field| (*field, self.of(field)))))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, unit: &'static str, visitor: V) -> Result<V::Value, Error> {
        match (self.text)(&self.name, unit) {
            None => visitor.visit_unit(),
            Some(text) => visitor.visit_str(&text).map_err(|error: Error| self.wrong(&text, &error.to_string())),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let text = (self.text)(&self.name, "1").unwrap_or_else(|| words[0].to_owned());
        let known = words.iter().find(|word| **word == text);
        let word = known.ok_or_else(|| self.wrong(&text, &format!("write {}", words.join(", "))))?;
        visitor.visit_enum((*word).into_deserializer())
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom(format!("{} is a setting without a unit and limits", self.name)))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

impl IntoDeserializer<'_, Error> for Reader<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
