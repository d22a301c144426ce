//! The contract between a site agent and the ramdisk it boots: `bc.*` arguments on the kernel command line.
//!
//! The site agent renders them in the order of this table; the ramdisk ignores every argument that does
//! not start with `bc.`. Values never hold spaces, quotes or control characters, so that nothing in them
//! can add an argument.

use std::fmt;

use data_encoding::BASE64URL_NOPAD;

use crate::error::{Error, Result};
use crate::id::SiteId;
use crate::key::P256Jwk;
use crate::pin::Pin;
use crate::secret::Secret;

/// The longest kernel command line that every kernel we boot keeps whole, in bytes.
pub const MAX_LINE: usize = 2047;
/// The longest gateway URL.
pub const MAX_GATEWAY: usize = 128;
/// The longest TLS name.
pub const MAX_SERVER_NAME: usize = 100;
/// The longest token.
pub const MAX_TOKEN: usize = 64;
/// The longest assertion in its compact form.
pub const MAX_ASSERTION: usize = 720;
/// The longest cache URL with its grant.
pub const MAX_CACHE: usize = 160;
/// The longest command line [`redact`] looks at, in bytes.
const MAX_PARSED: usize = 16 * 1024;

/// What a ramdisk needs to join, besides an address.
#[derive(Clone, PartialEq, Eq)]
pub struct BootParams {
    /// `bc.gateway`: https URL.
    pub gateway: String,
    /// `bc.server_name`: the TLS name when it differs from the URL's host.
    pub server_name: Option<String>,
    /// `bc.site`.
    pub site: SiteId,
    /// `bc.ca_pin`: the gateway's serving CA.
    pub ca_pin: Pin,
    /// `bc.join_pin`: who signs join answers.
    pub join_pin: Pin,
    /// `bc.enc_pin`: what join requests are sealed to.
    pub enc_pin: Pin,
    /// `bc.jwk`: that key itself.
    pub jwk: P256Jwk,
    /// `bc.token`: the discovery token.
    pub token: Secret,
    /// `bc.assertion`: the site agent's assertion in its compact form.
    pub assertion: String,
    /// `bc.cache`: the site cache's base URL with its grant.
    pub cache: Option<String>,
    /// `bc.trust`: the trust bundle's anchor.
    pub trust: Option<TrustAnchor>,
}

/// `<pin>:<minVersion>` of the trust bundle's signer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrustAnchor {
    /// The signer's pin.
    pub pin: Pin,
    /// The lowest version to take.
    pub min_version: u64,
}

impl fmt::Display for TrustAnchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.pin, self.min_version)
    }
}

impl std::str::FromStr for TrustAnchor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong =
            || Error::invalid_config("bc.trust", "not a pin, a colon and a version such as sha256/...:1");
        let (pin, version) = text.rsplit_once(':').ok_or_else(wrong)?;
        let digits = !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit());
        let min_version: u64 = version.parse().ok().filter(|_| digits).ok_or_else(wrong)?;
        Ok(Self { pin: pin.parse().map_err(|_| wrong())?, min_version })
    }
}

/// Printable ASCII without spaces, quotes and backslashes: nothing that a kernel or a boot loader reads as more
/// than a value.
fn is_plain(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|b| b.is_ascii_graphic() && !b"\"'\\`$".contains(&b))
}

fn plain(name: &'static str, value: &str, max: usize) -> Result<String> {
    if !is_plain(value) {
        return Err(Error::invalid_config(
            name,
            format!("{name} has spaces, quotes or other characters that it may not"),
        ));
    }
    if value.len() > max {
        return Err(Error::invalid_config(
            name,
            format!("{name} has {} characters: at most {max}", value.len()),
        ));
    }
    Ok(value.to_owned())
}

impl BootParams {
    /// The arguments in the order of the table, separated by single spaces.
    ///
    /// # Errors
    /// `INVALID_CONFIG` with the parameter as `details.path` for a value that is too long or not plain.
    pub fn render(&self) -> Result<String> {
        let token = self.token.expose_str().unwrap_or_default();
        let mut line = format!("bc.gateway={}", plain("bc.gateway", &self.gateway, MAX_GATEWAY)?);
        let mut add = |name: &str, value: &str| {
            line.push(' ');
            line.push_str(name);
            line.push('=');
            line.push_str(value);
        };
        if let Some(name) = &self.server_name {
            add("bc.server_name", &plain("bc.server_name", name, MAX_SERVER_NAME)?);
        }
        add("bc.site", self.site.as_str());
        add("bc.ca_pin", &self.ca_pin.to_string());
        add("bc.join_pin", &self.join_pin.to_string());
        add("bc.enc_pin", &self.enc_pin.to_string());
        add("bc.jwk", &BASE64URL_NOPAD.encode(self.jwk.to_json().as_bytes()));
        add("bc.token", &plain("bc.token", token, MAX_TOKEN)?);
        add("bc.assertion", &plain("bc.assertion", &self.assertion, MAX_ASSERTION)?);
        if let Some(cache) = &self.cache {
            add("bc.cache", &plain("bc.cache", cache, MAX_CACHE)?);
        }
        if let Some(trust) = &self.trust {
            add("bc.trust", &trust.to_string());
        }
        Ok(line)
    }

    /// Reads them from a kernel command line.
    ///
    /// # Errors
    /// `INVALID_CONFIG` with the parameter as `details.path` for a missing, duplicate, unknown or malformed one.
    pub fn parse(cmdline: &str) -> Result<Self> {
        let arguments = Arguments::read(cmdline)?;
        let jwk = arguments.required("bc.jwk")?;
        let jwk = BASE64URL_NOPAD
            .decode(jwk.as_bytes())
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .and_then(|text| P256Jwk::from_json(&text).ok())
            .ok_or_else(|| Error::invalid_config("bc.jwk", "bc.jwk is not the base64url of a P-256 JWK"))?;
        Ok(Self {
            gateway: plain("bc.gateway", arguments.required("bc.gateway")?, MAX_GATEWAY)?,
            server_name: arguments
                .optional("bc.server_name")
                .map(|name| plain("bc.server_name", name, MAX_SERVER_NAME))
                .transpose()?,
            site: arguments.required_parsed("bc.site")?,
            ca_pin: arguments.required_parsed("bc.ca_pin")?,
            join_pin: arguments.required_parsed("bc.join_pin")?,
            enc_pin: arguments.required_parsed("bc.enc_pin")?,
            jwk,
            token: Secret::from(plain("bc.token", arguments.required("bc.token")?, MAX_TOKEN)?),
            assertion: plain("bc.assertion", arguments.required("bc.assertion")?, MAX_ASSERTION)?,
            cache: arguments
                .optional("bc.cache")
                .map(|cache| plain("bc.cache", cache, MAX_CACHE))
                .transpose()?,
            trust: arguments.optional("bc.trust").map(str::parse).transpose()?,
        })
    }
}

impl fmt::Debug for BootParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BootParams")
            .field("gateway", &self.gateway)
            .field("site", &self.site)
            .finish_non_exhaustive()
    }
}

const NAMES: [&str; 11] = [
    "bc.gateway",
    "bc.server_name",
    "bc.site",
    "bc.ca_pin",
    "bc.join_pin",
    "bc.enc_pin",
    "bc.jwk",
    "bc.token",
    "bc.assertion",
    "bc.cache",
    "bc.trust",
];

struct Arguments<'a>([Option<&'a str>; NAMES.len()]);

impl<'a> Arguments<'a> {
    fn read(cmdline: &'a str) -> Result<Self> {
        if cmdline.len() > MAX_PARSED {
            return Err(Error::invalid_config("bc", "the kernel command line is too long"));
        }
        let mut found = [None; NAMES.len()];
        for argument in cmdline.split_ascii_whitespace().filter(|argument| argument.starts_with("bc.")) {
            let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
            // The name is cut, for it came from outside and goes into a message.
            let shown: String = name.chars().take(32).collect();
            let slot =
                NAMES.iter().position(|known| *known == name).and_then(|at| found.get_mut(at)).ok_or_else(
                    || {
                        Error::invalid_config(
                            shown.clone(),
                            format!("{shown} is no boot parameter of this version"),
                        )
                    },
                )?;
            if slot.replace(value).is_some() {
                return Err(Error::invalid_config(name, format!("{name} is there twice")));
            }
        }
        Ok(Self(found))
    }

    fn optional(&self, name: &str) -> Option<&'a str> {
        NAMES.iter().zip(self.0).find(|(known, _)| **known == name).and_then(|(_, value)| value)
    }

    fn required(&self, name: &'static str) -> Result<&'a str> {
        self.optional(name).ok_or_else(|| {
            Error::invalid_config(
                name,
                format!("{name} is missing from the kernel command line: boot through the site agent"),
            )
        })
    }

    fn required_parsed<T: std::str::FromStr<Err: fmt::Display>>(&self, name: &'static str) -> Result<T> {
        let value = self.required(name)?;
        value.parse().map_err(|error| Error::invalid_config(name, format!("{name}: {error}")))
    }
}

/// The command line with the values of `bc.token`, `bc.assertion` and `bc.cache` taken out, for logs and bundles.
#[must_use]
pub fn redact(cmdline: &str) -> String {
    let secret = ["bc.token=", "bc.assertion=", "bc.cache="];
    let words: Vec<String> = cmdline
        .split_ascii_whitespace()
        .map(|word| {
            let hidden = secret.iter().find(|name| word.starts_with(**name));
            hidden.map_or_else(|| word.to_owned(), |name| format!("{name}[redacted]"))
        })
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::Code;
    use crate::seal::OpeningKey;
    use crate::time::Timestamp;

    fn params() -> BootParams {
        let pin = Pin::of_spki_der(b"key");
        BootParams {
            gateway: "https://gw.example.com".to_owned(),
            server_name: None,
            site: SiteId::from_parts(Timestamp::EPOCH, [1; 10]),
            ca_pin: pin,
            join_pin: pin,
            enc_pin: pin,
            jwk: OpeningKey::from_scalar(&[1; 32]).unwrap().jwk().clone(),
            token: Secret::from("token".to_owned()),
            assertion: "a.b".to_owned(),
            cache: None,
            trust: None,
        }
    }

    fn full() -> BootParams {
        BootParams {
            gateway: format!("https://{}", "g".repeat(MAX_GATEWAY - 8)),
            server_name: Some("s".repeat(MAX_SERVER_NAME)),
            token: Secret::from("t".repeat(MAX_TOKEN)),
            assertion: "a".repeat(MAX_ASSERTION),
            cache: Some("c".repeat(MAX_CACHE)),
            trust: Some(TrustAnchor { pin: Pin::of_spki_der(b"t"), min_version: u64::MAX }),
            ..params()
        }
    }

    #[test]
    fn what_is_rendered_parses_to_the_same() {
        for params in [params(), full()] {
            let line = format!("BOOT_IMAGE=x quiet {} initrd=initrd bcx.y", params.render().unwrap());
            assert!(BootParams::parse(&line).unwrap() == params);
        }
    }

    #[test]
    fn the_largest_line_leaves_room_for_the_kernel_and_its_arguments() {
        assert!(full().render().unwrap().len() + 300 <= MAX_LINE, "{}", full().render().unwrap().len());
    }

    #[test]
    fn values_have_bounds_and_add_no_argument() {
        let cases: [(&str, BootParams); 6] = [
            ("bc.gateway", BootParams { gateway: format!("{}g", full().gateway), ..full() }),
            ("bc.gateway", BootParams { gateway: "https://a b".to_owned(), ..params() }),
            ("bc.server_name", BootParams { server_name: Some("a\nb".to_owned()), ..params() }),
            ("bc.token", BootParams { token: Secret::from("t".repeat(MAX_TOKEN + 1)), ..params() }),
            ("bc.assertion", BootParams { assertion: String::new(), ..params() }),
            ("bc.cache", BootParams { cache: Some("http://a/${net0/mac}".to_owned()), ..params() }),
        ];
        for (path, params) in cases {
            let error = params.render().unwrap_err();
            assert_eq!((error.code(), error.path()), (Code::InvalidConfig, Some(path)));
        }
    }

    #[test]
    fn missing_duplicate_unknown_and_malformed_parameters_are_named() {
        let line = params().render().unwrap();
        let drop =
            |name: &str| line.split(' ').filter(|word| !word.starts_with(name)).collect::<Vec<_>>().join(" ");
        for name in [
            "bc.gateway",
            "bc.site",
            "bc.ca_pin",
            "bc.join_pin",
            "bc.enc_pin",
            "bc.jwk",
            "bc.token",
            "bc.assertion",
        ] {
            assert_eq!(BootParams::parse(&drop(&format!("{name}="))).unwrap_err().path(), Some(name));
        }
        for (path, line) in [
            ("bc.token", format!("{line} bc.token=x")),
            ("bc.new", format!("{line} bc.new=1")),
            ("bc.site", line.replace("bc.site=site_", "bc.site=node_")),
            ("bc.jwk", line.replace("bc.jwk=", "bc.jwk=A")),
            ("bc.ca_pin", line.replace("bc.ca_pin=sha256", "bc.ca_pin=md5")),
            ("bc.trust", format!("{line} bc.trust=1")),
            ("bc", "x".repeat(MAX_PARSED + 1)),
        ] {
            assert_eq!(BootParams::parse(&line).unwrap_err().path(), Some(path));
        }
    }

    #[test]
    fn logs_do_not_hold_what_joins() {
        let shown = redact(&full().render().unwrap());
        assert!(
            !shown.contains(&"t".repeat(MAX_TOKEN))
                && !shown.contains(&"a".repeat(99))
                && !shown.contains(&"c".repeat(99))
        );
        assert!(shown.contains("bc.token=[redacted]") && shown.contains("bc.site=site_"));
        assert!(!format!("{:?}", full()).contains("tttt"));
    }

    proptest! {
        #[test]
        fn parsing_never_panics(line: String) {
            let _ = BootParams::parse(&line);
            let _ = redact(&line);
        }
    }
}
