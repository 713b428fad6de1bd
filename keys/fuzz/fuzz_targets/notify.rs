//! Fuzz target of [`sidecore_fuzz::notify`].
#![cfg_attr(fuzzing, no_main)]

sidecore_fuzz::target!(notify);
