//! Fuzz target of [`sidecore_fuzz::control`].
#![cfg_attr(fuzzing, no_main)]

sidecore_fuzz::target!(control);
