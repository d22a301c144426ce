//! The part of `config.toml` that every agent has: where the gateway is and what it is held against.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::id::SiteId;
use crate::pin::Pin;

/// The shared keys of `config.toml`, as written: the whole file of a ramdisk's installed system, and part of a
/// site agent's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigFile {
    /// `https://host[:port]`.
    pub gateway_url: String,
    /// The TLS name when it differs from the URL's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_server_name: Option<String>,
    /// The site's id.
    pub site: String,
    /// The pin of the gateway's serving CA.
    pub serving_ca_spki_pin: String,
    /// The pin of the key that signs join answers.
    pub join_signing_key_pin: String,
    /// The pin of the key that join requests are sealed to.
    pub join_encryption_key_pin: String,
    /// The trust bundle's anchor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust_root_pin: Option<String>,
    /// Where the agent keeps its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<PathBuf>,
}

/// Where an agent's data is unless its configuration says otherwise.
pub const DEFAULT_DATA_DIR: &str = "/var/lib/bcd";

/// The checked shared configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// The gateway.
    pub gateway: Gateway,
    /// The site.
    pub site: SiteId,
    /// What everything the gateway says is held against.
    pub pins: Pins,
    /// Where the agent keeps its files.
    pub data_dir: PathBuf,
}

/// The three pins that anchor an agent. A real agent does not start a join without all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pins {
    /// The serving CA's key.
    pub serving_ca: Pin,
    /// The join signing key.
    pub join_signing: Pin,
    /// The join encryption key.
    pub join_encryption: Pin,
}

/// Where a gateway is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    host: String,
    port: u16,
    server_name: String,
}

impl Gateway {
    /// Reads `https://host[:port]`, without user, path or query.
    ///
    /// # Errors
    /// `INVALID_CONFIG` at `gateway_url` or `gateway_server_name`.
    pub fn parse(url: &str, server_name: Option<&str>) -> Result<Self> {
        let wrong = |message: &str| {
            Error::invalid_config("gateway_url", format!("gateway_url {message}: {url:.200}"))
        };
        let rest = url.strip_prefix("https://").ok_or_else(|| wrong("must start with https://"))?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                (host, port.parse().map_err(|_| wrong("has a wrong port"))?)
            }
            _ => (authority, 443),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_host =
            !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_alphanumeric() || b".-:".contains(&b));
        if !is_host || (bare.contains(':') && bare == host) || port == 0 {
            return Err(wrong("must be https://host or https://host:port, without user, path or query"));
        }
        let server_name = match server_name {
            Some("") => {
                return Err(Error::invalid_config("gateway_server_name", "gateway_server_name is empty"));
            }
            Some(name) => name.to_owned(),
            None => bare.to_owned(),
        };
        Ok(Self { host: bare.to_owned(), port, server_name })
    }

    /// The host to connect to: a name or an address without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port to connect to.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The name its certificate is checked for.
    #[must_use]
    pub fn server_name(&self) -> &str {
        &self.server_name
    }

    /// `host:port` for a URL or a Host header.
    #[must_use]
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The origin, with its port.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("https://{}", self.authority())
    }
}

impl AgentConfig {
    /// Checks the shared keys.
    ///
    /// # Errors
    /// `INVALID_CONFIG` with the key as `details.path`.
    pub fn check(file: &ConfigFile) -> Result<Self> {
        let pin = |key: &str, text: &str| -> Result<Pin> {
            text.parse().map_err(|error| Error::invalid_config(key, format!("{key}: {error}")))
        };
        Ok(Self {
            gateway: Gateway::parse(&file.gateway_url, file.gateway_server_name.as_deref())?,
            site: file
                .site
                .parse()
                .map_err(|error| Error::invalid_config("site", format!("site: {error}")))?,
            pins: Pins {
                serving_ca: pin("serving_ca_spki_pin", &file.serving_ca_spki_pin)?,
                join_signing: pin("join_signing_key_pin", &file.join_signing_key_pin)?,
                join_encryption: pin("join_encryption_key_pin", &file.join_encryption_key_pin)?,
            },
            data_dir: file.data_dir.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DATA_DIR)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expect: Option<(&str, u16)>) {
        let parsed = Gateway::parse(url, None).ok();
        assert_eq!(parsed.as_ref().map(|gateway| (gateway.host(), gateway.port())), expect, "{url}");
    }

    #[test]
    fn a_gateway_is_an_https_origin() {
        check("https://gw.example.com", Some(("gw.example.com", 443)));
        check("https://127.0.0.1:8443/", Some(("127.0.0.1", 8443)));
        check("https://[::1]:8443", Some(("::1", 8443)));
        check("https://[::1]", Some(("::1", 443)));
        for bad in [
            "",
            "gw",
            "ftp://gw",
            "https://",
            "https://u@gw",
            "https://gw/path",
            "https://gw:x",
            "https://gw:0",
            "https://gw:70000",
            "https://::1",
            "https://gw?x",
            "https://g w",
        ] {
            check(bad, None);
        }
        check("http://gw", None);
        assert_eq!(Gateway::parse("https://[::1]:1", None).unwrap().origin(), "https://[::1]:1");
        assert_eq!(
            Gateway::parse("https://1.2.3.4", Some("gw.internal")).unwrap().server_name(),
            "gw.internal"
        );
    }

    #[test]
    fn each_wrong_key_is_named() {
        let pin = Pin::of_spki_der(b"k").to_string();
        let good = ConfigFile {
            gateway_url: "https://gw".to_owned(),
            site: SiteId::from_parts(crate::time::Timestamp::EPOCH, [0; 10]).to_string(),
            serving_ca_spki_pin: pin.clone(),
            join_signing_key_pin: pin.clone(),
            join_encryption_key_pin: pin,
            ..ConfigFile::default()
        };
        assert_eq!(AgentConfig::check(&good).unwrap().data_dir, PathBuf::from(DEFAULT_DATA_DIR));
        let bad = String::from("x");
        for (path, file) in [
            ("gateway_url", ConfigFile { gateway_url: bad.clone(), ..good.clone() }),
            ("gateway_server_name", ConfigFile { gateway_server_name: Some(String::new()), ..good.clone() }),
            ("site", ConfigFile { site: bad.clone(), ..good.clone() }),
            ("serving_ca_spki_pin", ConfigFile { serving_ca_spki_pin: bad.clone(), ..good.clone() }),
            ("join_signing_key_pin", ConfigFile { join_signing_key_pin: bad.clone(), ..good.clone() }),
            ("join_encryption_key_pin", ConfigFile { join_encryption_key_pin: bad, ..good }),
        ] {
            assert_eq!(AgentConfig::check(&file).unwrap_err().path(), Some(path));
        }
        assert!(toml::from_str::<ConfigFile>("gateway_url = 'x'\nnew_key = 1").is_err());
    }
}
