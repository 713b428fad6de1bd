//! Fuzz target of [`sidecore_fuzz::plan`].
#![cfg_attr(fuzzing, no_main)]

sidecore_fuzz::target!(plan);
