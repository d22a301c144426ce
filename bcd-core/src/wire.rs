//! Every message between a control plane and its agents.
//!
//! JSON in camelCase. Messages of the session ignore fields they do not know, so that either end may be
//! newer; documents that are signed refuse them, because what is signed must mean one thing. Each message
//! has a JSON Schema in `fixtures/schema/` and vectors in `fixtures/wire/`.

pub mod assertion;
pub mod batch;
pub mod bmc;
pub mod boot;
pub mod command;
pub mod frame;
pub mod join;
pub mod kinds;
pub mod ramdisk;
pub mod session;
pub mod spec;
pub mod trust;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an agent is; it comes from its certificate, never from a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentRole {
    /// A site agent.
    Site,
    /// The agent in the PXE ramdisk.
    Ramdisk,
    /// The agent of an installed system.
    Node,
}

impl AgentRole {
    /// The role as it stands in JSON and in certificates.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Site => "site",
            Self::Ramdisk => "ramdisk",
            Self::Node => "node",
        }
    }
}

impl std::fmt::Display for AgentRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for AgentRole {
    type Err = crate::Error;

    fn from_str(text: &str) -> crate::Result<Self> {
        [Self::Site, Self::Ramdisk, Self::Node]
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or_else(|| crate::Error::invalid_input("role", "a role is site, ramdisk or node"))
    }
}

/// The version of the signed documents; another one is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u8", into = "u8")]
pub struct V1;

impl TryFrom<u8> for V1 {
    type Error = &'static str;

    fn try_from(version: u8) -> Result<Self, Self::Error> {
        if version == 1 { Ok(Self) } else { Err("only version 1 is known") }
    }
}

impl From<V1> for u8 {
    fn from(V1: V1) -> Self {
        1
    }
}

/// How far two clocks may be apart, everywhere.
pub const SKEW: std::time::Duration = std::time::Duration::from_secs(60);
