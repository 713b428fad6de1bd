//! Fuzz target of [`sidecore_fuzz::config`].
#![cfg_attr(fuzzing, no_main)]

sidecore_fuzz::target!(config);
