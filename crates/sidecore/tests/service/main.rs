//! Clients and a service in one test process or several, over real lanes.

mod balance;
mod busy;
mod checked;
mod common;
mod death;
mod descriptors;
mod devices;
mod embed;
mod fork;
mod hostile;
mod interrupted;
mod key_counters;
mod keys;
mod kills;
mod lane;
mod limits;
mod load;
mod losses;
mod orders;
mod owners;
mod peer;
mod policies;
mod sandbox;
mod secrets;
mod stages;
mod stopped;
