//! The agent runtime that the site agent, the ramdisk and the installed node share.
//!
//! Pure machines: [`trust`] (what a bundle allows), [`verify`] (commands), [`session`] (frames and
//! heartbeats), [`clock`] (time without a clock). Thin shells: [`identity`] and [`journal`] (files),
//! [`join`] and [`run`] (the network). An agent gives [`run::Agent`] its [`run::CommandHandler`] and is told
//! of its desired state by [`run::Hooks`].

pub mod clock;
pub mod config;
mod executor;
pub mod handle;
pub mod identity;
pub mod join;
pub mod journal;
pub mod run;
pub mod session;
pub mod spec;
mod transport;
pub mod trust;
pub mod verify;

pub use config::AgentConfig;
pub use identity::Identity;

#[cfg(test)]
mod verify_tests;
