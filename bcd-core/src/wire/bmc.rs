//! The `bmc.*` kinds: one operation on one machine's BMC.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::pin::Pin;
use crate::reason::Reason;

/// What a site agent is to do with a BMC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BmcOperationRequest {
    /// The operation, such as `power.setPower`.
    pub operation: String,
    /// The driver's id; `redfish` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The BMC's address: `host`, `host:port` or an https URL.
    pub address: String,
    /// The pin of the BMC's own key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Pin>,
    /// The driver's options.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
    /// The secret that holds the credential.
    pub credential_ref: String,
    /// The user, where the secret is a bare password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The secret that holds the new password, for a rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_credential_ref: Option<String>,
    /// The operation's own input.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub input: Map<String, Value>,
}

/// What came of it. A BMC that refuses does not fail the command: it answers `ok: false` with a code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BmcAnswer {
    /// Whether the BMC did it.
    pub ok: bool,
    /// Why not: a reason of `fixtures/reasons.json`, or a hosted driver's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why not, for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The operation's output.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub output: Map<String, Value>,
}

impl BmcAnswer {
    /// The BMC did it.
    #[must_use]
    pub const fn ok(output: Map<String, Value>) -> Self {
        Self { ok: true, code: None, message: None, output }
    }

    /// The BMC did not.
    #[must_use]
    pub fn refused(code: Reason, message: impl Into<String>) -> Self {
        Self {
            ok: false,
            code: Some(code.as_str().to_owned()),
            message: Some(message.into()),
            output: Map::new(),
        }
    }
}

/// A BMC credential as the secret store holds it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BmcCredential {
    /// The user.
    pub username: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for BmcCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BmcCredential(..)")
    }
}
