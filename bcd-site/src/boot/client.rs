//! What kind of boot client a machine is, and which file it is given.
//!
//! | client | file |
//! |---|---|
//! | iPXE, any architecture | its script, by HTTP |
//! | architecture 0 | the BIOS file, by TFTP |
//! | 7, 9 | the x64 file, by TFTP |
//! | 11 | the arm64 file, by TFTP |
//! | 16, 19 with the vendor class `HTTPClient` | the x64 or arm64 file, by HTTP |
//!
//! Numbers: RFC 4578 section 2.1 with the IANA registry "Processor Architecture Types".

/// Which service a client speaks to; the vendor class that an answer must carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VendorClass {
    /// `PXEClient`: TFTP, or iPXE.
    Pxe,
    /// `HTTPClient`: UEFI HTTP boot.
    Http,
}

impl VendorClass {
    /// From option 60, which starts with the class and goes on with `:Arch:...`.
    #[must_use]
    pub fn from_option(data: &[u8]) -> Option<Self> {
        [Self::Pxe, Self::Http].into_iter().find(|class| data.starts_with(class.as_str().as_bytes()))
    }

    /// The class alone, as an answer carries it: firmware drops an answer with anything after it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pxe => "PXEClient",
            Self::Http => "HTTPClient",
        }
    }
}

/// The loader builds that the operator supplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loader {
    /// For legacy BIOS.
    Bios,
    /// For UEFI on x86-64.
    X64,
    /// For UEFI on arm64.
    Arm64,
}

/// What a client is to be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootFile {
    /// The URL of its script.
    Script,
    /// The name of a loader, by TFTP.
    Tftp(Loader),
    /// The URL of a loader.
    Http(Loader),
}

/// A boot client, as its request describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// The vendor class.
    pub class: VendorClass,
    /// The architecture, where it told one.
    pub arch: Option<u16>,
    /// Whether it is iPXE.
    pub is_ipxe: bool,
}

impl Client {
    /// What it is given; `None` for an architecture that nothing is built for.
    #[must_use]
    pub const fn boot_file(self) -> Option<BootFile> {
        match (self.is_ipxe, self.class, self.arch) {
            (true, _, _) => Some(BootFile::Script),
            (false, VendorClass::Pxe, Some(0)) => Some(BootFile::Tftp(Loader::Bios)),
            (false, VendorClass::Pxe, Some(7 | 9)) => Some(BootFile::Tftp(Loader::X64)),
            (false, VendorClass::Pxe, Some(11)) => Some(BootFile::Tftp(Loader::Arm64)),
            (false, VendorClass::Http, Some(16)) => Some(BootFile::Http(Loader::X64)),
            (false, VendorClass::Http, Some(19)) => Some(BootFile::Http(Loader::Arm64)),
            _ => None,
        }
    }

    /// The architecture's name in the list of discovered machines.
    #[must_use]
    pub fn arch_name(self) -> Option<String> {
        Some(match self.arch? {
            0 => "bios".to_owned(),
            7 | 9 => "x86_64-efi".to_owned(),
            11 => "arm64-efi".to_owned(),
            16 => "x86_64-efi-http".to_owned(),
            19 => "arm64-efi-http".to_owned(),
            other => format!("arch-{other}"),
        })
    }
}

/// The architecture in option 93 (a list of which the first counts), else the one in option 60
/// (`PXEClient:Arch:00007:UNDI:003000`).
#[must_use]
pub fn arch(option_93: Option<&[u8]>, option_60: &[u8]) -> Option<u16> {
    if let Some(&[high, low, ..]) = option_93 {
        return Some(u16::from_be_bytes([high, low]));
    }
    let text = std::str::from_utf8(option_60).ok()?;
    text.split(':').skip_while(|&part| part != "Arch").nth(1)?.parse().ok()
}

/// Whether option 77 is iPXE's: the bare text, as iPXE sends it, or an RFC 3004 list with such a class.
#[must_use]
pub fn is_ipxe_user_class(data: &[u8]) -> bool {
    const NAME: &[u8] = b"iPXE";
    if data == NAME {
        return true;
    }
    let mut rest = data;
    while let Some((&len, tail)) = rest.split_first() {
        let Some((class, next)) = tail.split_at_checked(usize::from(len)) else { return false };
        if class == NAME {
            return true;
        }
        rest = next;
    }
    false
}

/// The product UUID in option 97: 17 bytes of type 0, in SMBIOS's byte order (RFC 4578 section 2.3).
/// All zeros and all ones mean that the machine has none.
#[must_use]
pub fn product_uuid(option_97: &[u8]) -> Option<String> {
    let (&0, bytes) = option_97.split_first()? else { return None };
    let bytes: [u8; 16] = bytes.try_into().ok()?;
    let is_set = bytes != [0; 16] && bytes != [0xff; 16];
    is_set.then(|| uuid::Uuid::from_bytes_le(bytes).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_gets_the_file_of_the_table() {
        let check = |class, arch, is_ipxe, file, name: Option<&str>| {
            let client = Client { class, arch, is_ipxe };
            assert_eq!(client.boot_file(), file, "{client:?}");
            assert_eq!(client.arch_name().as_deref(), name, "{client:?}");
        };
        use {Loader as L, VendorClass as V};
        check(V::Pxe, Some(0), false, Some(BootFile::Tftp(L::Bios)), Some("bios"));
        check(V::Pxe, Some(7), false, Some(BootFile::Tftp(L::X64)), Some("x86_64-efi"));
        check(V::Pxe, Some(9), false, Some(BootFile::Tftp(L::X64)), Some("x86_64-efi"));
        check(V::Pxe, Some(11), false, Some(BootFile::Tftp(L::Arm64)), Some("arm64-efi"));
        check(V::Http, Some(16), false, Some(BootFile::Http(L::X64)), Some("x86_64-efi-http"));
        check(V::Http, Some(19), false, Some(BootFile::Http(L::Arm64)), Some("arm64-efi-http"));
        check(V::Pxe, Some(11), true, Some(BootFile::Script), Some("arm64-efi"));
        check(V::Pxe, None, true, Some(BootFile::Script), None);
        check(V::Pxe, Some(6), false, None, Some("arch-6"));
        check(V::Pxe, Some(16), false, None, Some("x86_64-efi-http"));
        check(V::Http, Some(7), false, None, Some("x86_64-efi"));
        check(V::Pxe, None, false, None, None);
    }

    #[test]
    fn a_vendor_class_is_known_by_how_it_starts() {
        let check = |data: &[u8], class| assert_eq!(VendorClass::from_option(data), class);
        check(b"PXEClient", Some(VendorClass::Pxe));
        check(b"PXEClient:Arch:00007:UNDI:003000", Some(VendorClass::Pxe));
        check(b"HTTPClient:Arch:00016:UNDI:003000", Some(VendorClass::Http));
        check(b"PXEClien", None);
        check(b"udhcp 1.35.0", None);
        check(b"", None);
    }

    #[test]
    fn the_architecture_comes_from_option_93_else_from_60() {
        assert_eq!(arch(Some(&[0, 7]), b"PXEClient:Arch:00000"), Some(7));
        assert_eq!(arch(Some(&[0, 9, 0, 7]), b""), Some(9));
        assert_eq!(arch(None, b"PXEClient:Arch:00011:UNDI:003000"), Some(11));
        assert_eq!(arch(Some(&[7]), b"PXEClient:Arch:00011"), Some(11));
        for none in
            [&b"PXEClient"[..], b"PXEClient:Arch", b"PXEClient:Arch:", b"PXEClient:Arch:99999", b"\xff"]
        {
            assert_eq!(arch(None, none), None);
        }
    }

    #[test]
    fn ipxe_is_known_by_its_bare_name_or_in_a_list() {
        for yes in [&b"iPXE"[..], b"\x04iPXE", b"\x03abc\x04iPXE", b"\x00\x04iPXE"] {
            assert!(is_ipxe_user_class(yes), "{yes:?}");
        }
        for no in [&b""[..], b"iPX", b"iPXE2", b"\x05iPXE", b"\x05iPXE2", b"\xffiPXE", b"\x00"] {
            assert!(!is_ipxe_user_class(no), "{no:?}");
        }
    }

    #[test]
    fn a_uuid_is_17_bytes_of_type_0_that_are_not_blank() {
        let bytes = |ty: u8| {
            let mut data = vec![ty];
            data.extend([0x44, 0x33, 0x22, 0x11, 0x66, 0x55, 0x88, 0x77]);
            data.extend([0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x00]);
            data
        };
        assert_eq!(product_uuid(&bytes(0)).as_deref(), Some("11223344-5566-7788-99aa-bbccddeeff00"));
        assert_eq!(product_uuid(&bytes(1)), None);
        assert_eq!(product_uuid(&bytes(0)[..16]), None);
        assert_eq!(product_uuid(&[0; 17]), None);
        assert_eq!(product_uuid(&[[0].as_slice(), &[0xff; 16]].concat()), None);
        assert_eq!(product_uuid(&[]), None);
    }
}
