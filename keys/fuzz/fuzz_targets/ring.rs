//! Fuzz target of [`sidecore_fuzz::ring`].
#![cfg_attr(fuzzing, no_main)]

sidecore_fuzz::target!(ring);
