//! Fuzz target of [`sidecore_fuzz::uri`].
#![cfg_attr(fuzzing, no_main)]

sidecore_fuzz::target!(uri);
