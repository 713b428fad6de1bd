//! Typed settings as they stand in a plan: a struct of parts, each a struct of settings.

/// Declares the typed settings of a system, read by serde: `part: Type { name: kind, … }`, or `part: Type;` for a struct
/// that is declared elsewhere, and behind them the words of choices. Attributes of a part's struct are inner ones.
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
