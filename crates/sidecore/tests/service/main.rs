//! Clients and a service in one test process or several, over real lanes.

mod busy;
mod common;
mod death;
mod fork;
mod hostile;
mod kills;
mod lane;
mod limits;
mod load;
mod peer;
