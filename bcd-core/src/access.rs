//! Who asks, for which tenant, and the seam that decides whether they may.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A tenant's name: `[a-z0-9._-]{1,64}`. `root` is the platform's own; `builtin` lists what ships and owns nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct TenantId(String);

impl TenantId {
    /// The longest name, in bytes.
    pub const MAX_LEN: usize = 64;

    /// The platform's tenant.
    #[must_use]
    pub fn root() -> Self {
        Self("root".to_owned())
    }

    /// The tenant under which shipped things are listed; it refuses writes.
    #[must_use]
    pub fn builtin() -> Self {
        Self("builtin".to_owned())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TenantId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fits = (1..=Self::MAX_LEN).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b));
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::invalid_input("tenantId", "a tenant is 1 to 64 of a-z, 0-9, '.', '_' and '-'"))
        }
    }
}

impl TryFrom<String> for TenantId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<TenantId> for String {
    fn from(tenant: TenantId) -> Self {
        tenant.0
    }
}

/// Who calls: a subject the host application knows, for audit and for its [`Authorizer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The host's name of the caller, such as `user:alice` or `token:cli`.
    pub subject: String,
}

/// The host's decision on an action, by its name such as `compute:images:publish`.
#[async_trait]
pub trait Authorizer: Send + Sync {
    /// Returns when `actor` may do `action` in `tenant`.
    ///
    /// # Errors
    /// `FORBIDDEN`, with a message that does not tell whether the thing exists.
    async fn authorize(&self, actor: &Actor, action: &str, tenant: &TenantId) -> Result<()>;
}

/// Allows everything: for a host whose callers are all the operator.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

#[async_trait]
impl Authorizer for AllowAll {
    async fn authorize(&self, _: &Actor, _: &str, _: &TenantId) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_are_short_plain_names() {
        assert!("acme-1.eu_x".parse::<TenantId>().is_ok());
        assert!("a".repeat(64).parse::<TenantId>().is_ok());
        for bad in [String::new(), "A".into(), "a b".into(), "a/b".into(), "é".into(), "a".repeat(65)] {
            assert_eq!(bad.parse::<TenantId>().unwrap_err().path(), Some("tenantId"), "{bad}");
        }
    }
}
