//! Fuzz target of [`sidecore_fuzz::completion`].
#![cfg_attr(fuzzing, no_main)]

sidecore_fuzz::target!(completion);
