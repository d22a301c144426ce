//! The base of better-compute: the contract between a control plane and its agents.
//!
//! By default everything here is pure: no I/O, no clock, no async runtime. Time comes in as an argument
//! and randomness from [`random`]. Behind features: `sqlite` (one database thread shared by all stores),
//! `fetch` (downloads on our terms) and `agent` (the runtime that the site agent and the ramdisk share).

pub mod access;
#[cfg(feature = "agent")]
pub mod agent;
pub mod boot_params;
pub mod digest;
pub mod envelope;
pub mod error;
#[cfg(feature = "files")]
pub mod files;
pub mod id;
pub mod key;
pub mod machine;
pub mod pin;
pub mod random;
pub mod reason;
pub mod seal;
pub mod secret;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "fetch")]
pub mod stream;
pub mod strict_json;
pub mod time;
#[cfg(feature = "fetch")]
pub mod tls;
pub mod wire;
#[cfg(feature = "x509")]
pub mod x509;

pub use error::{Code, Error, Result};
