//! The one error model: a [`Code`], a message a person can act on, and `details`.
//!
//! The source of an error is kept (see [`std::error::Error::source`]) but never printed inside the
//! message, so a chain that is logged in full says everything once.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::reason::Reason;

/// What kind of failure it is; the same set for the API, the libraries and the agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum Code {
    /// Configuration (a profile, a file, an option) is wrong; `details.path` says where.
    InvalidConfig,
    /// The caller's input is wrong; `details.path` says where.
    InvalidInput,
    /// The thing exists, but its state does not allow this; `details.reason` says why.
    InvalidState,
    /// No such thing, or none the caller may see.
    NotFound,
    /// It exists already, or it changed since it was read.
    Conflict,
    /// It is a legal request that this build or this machine can't carry out.
    Unsupported,
    /// The caller may not do this.
    Forbidden,
    /// An agent, a BMC or a driver refused or failed; `details.reason` says why.
    DriverError,
    /// A disk could not be proven wiped, so the machine is kept from other tenants.
    UnverifiedWipe,
    /// It took longer than it may.
    Timeout,
    /// Something it needs can't be reached at the moment; trying again may help.
    Unavailable,
    /// A fault of this program.
    Internal,
}

impl Code {
    /// The code as it stands in JSON, such as `INVALID_CONFIG`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidConfig => "INVALID_CONFIG",
            Self::InvalidInput => "INVALID_INPUT",
            Self::InvalidState => "INVALID_STATE",
            Self::NotFound => "NOT_FOUND",
            Self::Conflict => "CONFLICT",
            Self::Unsupported => "UNSUPPORTED",
            Self::Forbidden => "FORBIDDEN",
            Self::DriverError => "DRIVER_ERROR",
            Self::UnverifiedWipe => "UNVERIFIED_WIPE",
            Self::Timeout => "TIMEOUT",
            Self::Unavailable => "UNAVAILABLE",
            Self::Internal => "INTERNAL",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error with its code, a message for a person, and machine-readable details.
///
/// ```
/// use bcd_core::error::{Code, Error};
///
/// let error = Error::new(Code::InvalidConfig, "timeout must be at most 7 days").at("steps[2].timeout");
/// assert_eq!(error.path(), Some("steps[2].timeout"));
/// assert_eq!(error.to_string(), "timeout must be at most 7 days");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    code: Code,
    message: String,
    details: Box<Map<String, Value>>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The result of everything fallible in this family of crates.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error without details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Box::default(), source: None }
    }

    /// `INVALID_INPUT` at `path`.
    pub fn invalid_input(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Code::InvalidInput, message).at(path)
    }

    /// `INVALID_CONFIG` at `path`.
    pub fn invalid_config(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Code::InvalidConfig, message).at(path)
    }

    /// `NOT_FOUND`.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    /// `INVALID_STATE` with its reason.
    pub fn invalid_state(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Code::InvalidState, message).because(reason)
    }

    /// `FORBIDDEN` with its reason.
    pub fn forbidden(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Code::Forbidden, message).because(reason)
    }

    /// `DRIVER_ERROR` with its reason.
    pub fn driver(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(Code::DriverError, message).because(reason)
    }

    /// `UNAVAILABLE`.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Code::Unavailable, message)
    }

    /// `INTERNAL`: a fault of ours or of the machine below (a full disk, a broken database).
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// The same error with `details.path`.
    #[must_use]
    pub fn at(self, path: impl Into<String>) -> Self {
        self.detail("path", path.into())
    }

    /// The same error with `details.reason`.
    #[must_use]
    pub fn because(self, reason: Reason) -> Self {
        self.detail("reason", reason.as_str())
    }

    /// The same error with one more detail.
    #[must_use]
    pub fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// The same error with what caused it, for logs.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same error under another code: a profile's `INVALID_CONFIG` is an API caller's `INVALID_INPUT`.
    #[must_use]
    pub fn with_code(mut self, code: Code) -> Self {
        self.code = code;
        self
    }

    /// The code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// The message, without its sources.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// All details.
    #[must_use]
    pub fn details(&self) -> &Map<String, Value> {
        &self.details
    }

    /// `details.path`, where there is one.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.details.get("path").and_then(Value::as_str)
    }

    /// `details.reason`, where there is one.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.details.get("reason").and_then(Value::as_str)
    }

    /// The error as it goes over a wire or into a database: everything but its sources.
    #[must_use]
    pub fn to_body(&self) -> ErrorBody {
        ErrorBody { code: self.code, message: self.message.clone(), details: (*self.details).clone() }
    }

    /// The whole chain in one line, for a log.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut line = format!("{}: {}", self.code, self.message);
        let mut next = std::error::Error::source(self);
        while let Some(source) = next {
            line.push_str(": ");
            line.push_str(&source.to_string());
            next = source.source();
        }
        line
    }
}

/// The JSON form of an [`Error`]: the body of a failed API call, a step's recorded failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// The code.
    pub code: Code,
    /// What a person reads.
    pub message: String,
    /// `path`, `reason` and more.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

impl ErrorBody {
    /// `details.reason`, where there is one.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.details.get("reason").and_then(Value::as_str)
    }
}

impl From<ErrorBody> for Error {
    fn from(body: ErrorBody) -> Self {
        Self { code: body.code, message: body.message, details: Box::new(body.details), source: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason;

    #[test]
    fn the_source_is_kept_and_not_printed_in_the_message() {
        let io = std::io::Error::other("disk on fire");
        let error = Error::internal("can't write the journal").caused_by(io);
        assert_eq!(error.to_string(), "can't write the journal");
        assert_eq!(error.chain(), "INTERNAL: can't write the journal: disk on fire");
    }

    #[test]
    fn a_body_round_trips_with_path_and_reason() {
        let error = Error::driver(reason::NO_ROOT_DISK, "no disk fits").at("rootDisk.serial");
        let json = serde_json::to_string(&error.to_body()).unwrap();
        assert_eq!(
            json,
            r#"{"code":"DRIVER_ERROR","message":"no disk fits","details":{"path":"rootDisk.serial","reason":"no-root-disk"}}"#
        );
        let back: Error = serde_json::from_str::<ErrorBody>(&json).unwrap().into();
        assert_eq!(
            (back.code(), back.reason(), back.path()),
            (Code::DriverError, Some("no-root-disk"), Some("rootDisk.serial"))
        );
    }

    #[test]
    fn a_code_prints_as_it_stands_in_json() {
        for code in [Code::InvalidConfig, Code::UnverifiedWipe, Code::Unavailable, Code::DriverError] {
            assert_eq!(serde_json::to_value(code).unwrap(), Value::from(code.as_str()));
        }
    }
}
