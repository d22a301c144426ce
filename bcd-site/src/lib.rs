//! The site agent.
