//! Clients and a service in one test process or several, over real lanes.

mod balance;
mod busy;
mod checked;
mod common;
mod death;
mod devices;
mod embed;
mod fork;
mod hostile;
mod key_counters;
mod keys;
mod kills;
mod lane;
mod limits;
mod load;
mod losses;
mod neighbours;
mod orders;
mod owners;
mod peer;
mod place;
mod policies;
mod sandbox;
mod secrets;
mod stages;
mod trust;
