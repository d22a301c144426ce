//! Bare-metal machines: their states, drivers, steps and shipped profiles, and the gateway of their agents.
//!
//! Everything metal keeps is a [`record::Entity`] in a [`record::RecordStore`]. Behind the feature `gateway`
//! is the server end of joins and sessions; without it the crate opens no socket.

pub mod record;
