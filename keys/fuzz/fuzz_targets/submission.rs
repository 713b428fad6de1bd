//! Fuzz target of [`sidecore_fuzz::submission`].
#![cfg_attr(fuzzing, no_main)]

sidecore_fuzz::target!(submission);
