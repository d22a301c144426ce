//! Proxy DHCP: what to answer to one packet.
//!
//! The site's own DHCP server hands out addresses; this one adds only where to boot from, so `yiaddr` is
//! always 0. It speaks to machines that say they are boot clients (option 60), that have a live boot entry,
//! while the boot lease is held. The answer carries what real firmware was seen to need: the server in option
//! 54 and `siaddr`, exactly `PXEClient` or `HTTPClient` in 60, the file in the header and in 67, and for PXE
//! the discovery control 8 in 43, so that the firmware takes the named file and shows no menu.
//!
//! Sources: RFC 2131, RFC 2132, RFC 3046 (relay), RFC 4578, and the PXE specification 2.1 sections 2.2 to 2.4.

use std::net::{Ipv4Addr, SocketAddrV4};

use bcd_core::machine::MacAddr;
use bcd_core::time::Timestamp;
use dhcproto::v4::{self, DhcpOption, MessageType, OptionCode, borrowed};
use dhcproto::{Encodable as _, Encoder};

use super::client::{self, BootFile, Client, Loader, VendorClass};
use super::discovery::{Sighting, Via};
use super::entry::{Entries, Standing};
use super::fence::HeldLease;

/// The port that DHCP servers and relays listen on.
pub const SERVER_PORT: u16 = 67;

/// The port that DHCP clients listen on.
pub const CLIENT_PORT: u16 = 68;

/// The longest request that is read, in bytes: what fits an Ethernet frame.
pub const MAX_REQUEST: usize = 1472;

/// The shortest answer, in bytes: some clients drop what is shorter than a BOOTP message (RFC 951).
const MIN_ANSWER: usize = 300;

/// The header's file field holds this many bytes, of which the last is a zero.
const FILE_FIELD: usize = 128;

/// PXE sub-option 6 with bit 3: use the boot file of this answer, no discovery, no menu.
const PXE_USE_THE_FILE: [u8; 4] = [6, 1, 8, 0xff];

/// What the answers say, from the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DhcpConfig {
    /// This server's address (options 54 and 66, `siaddr`).
    pub server: Ipv4Addr,
    /// Whether there is a TFTP server at that address.
    pub tftp: bool,
    /// How machines reach the HTTP boot server, without a slash at the end.
    pub url: String,
    /// The loader for BIOS.
    pub bios_file: String,
    /// The loader for UEFI on x86-64.
    pub x64_file: String,
    /// The loader for UEFI on arm64.
    pub arm64_file: String,
}

impl DhcpConfig {
    fn loader(&self, loader: Loader) -> &str {
        match loader {
            Loader::Bios => &self.bios_file,
            Loader::X64 => &self.x64_file,
            Loader::Arm64 => &self.arm64_file,
        }
    }

    /// What stands in the boot-file fields for a client; `None` when nothing can be served to it.
    fn file(&self, file: BootFile) -> Option<String> {
        match file {
            BootFile::Script => Some(format!("{}/boot/ipxe", self.url)),
            BootFile::Http(loader) => Some(format!("{}/boot/file/{}", self.url, self.loader(loader))),
            BootFile::Tftp(loader) => self.tftp.then(|| self.loader(loader).to_owned()),
        }
    }
}

/// The socket a packet came in on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// The DHCP server port, 67.
    Dhcp,
    /// The PXE boot-server port, 4011, where clients come with an address of their own.
    Pxe,
}

/// Where an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To everybody on the link, port 68: the client has no address yet.
    Broadcast,
    /// To one address.
    Unicast(SocketAddrV4),
}

/// A request for boot information, as far as it counts here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PxeRequest {
    /// Who asks.
    pub mac: MacAddr,
    /// Whether it is a DISCOVER (a new boot), else a REQUEST.
    pub discover: bool,
    /// What kind of client it is.
    pub client: Client,
    /// Its product UUID, where it told one.
    pub uuid: Option<String>,
}

/// An answer, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The packet.
    pub bytes: Vec<u8>,
    /// Where it goes.
    pub to: Destination,
}

/// Why a packet is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// It isn't a well-formed request of an Ethernet machine.
    Malformed,
    /// It is neither DISCOVER nor REQUEST, or no boot client's.
    NotPxe,
    /// It is meant for another server.
    OtherServer,
    /// The boot lease is not held.
    NoLease,
    /// The machine's entry is consumed or past its window: it boots its next device.
    Over,
    /// There is no file for such a client.
    NoFile,
}

/// What to do about a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Ignore(Ignored),
    /// List the machine: it has no entry.
    Discovered(Sighting),
    /// Answer a machine with a live entry.
    Answer {
        /// Its request, which counts for the entry too.
        request: PxeRequest,
        /// The answer.
        reply: Reply,
    },
}

/// Decides on one packet that came from `from` on `port`.
///
/// The lease is asked for again by whoever sends the answer.
#[must_use]
pub fn answer(
    packet: &[u8],
    from: SocketAddrV4,
    port: Port,
    config: &DhcpConfig,
    entries: &Entries,
    lease: Option<HeldLease>,
    now: Timestamp,
) -> Decision {
    let parsed = match Parsed::read(packet, config.server) {
        Ok(parsed) => parsed,
        Err(why) => return Decision::Ignore(why),
    };
    if lease.is_none() {
        return Decision::Ignore(Ignored::NoLease);
    }
    let request = &parsed.request;
    match entries.standing(request.mac, now) {
        Standing::None => Decision::Discovered(Sighting {
            mac: request.mac,
            uuid: request.uuid.clone(),
            arch: request.client.arch_name(),
            via: Via::Dhcp,
        }),
        Standing::Over => Decision::Ignore(Ignored::Over),
        Standing::Live(_) => {
            let file = request.client.boot_file().and_then(|file| config.file(file));
            let bytes = file.and_then(|file| parsed.reply(&file, config));
            let Some(bytes) = bytes else { return Decision::Ignore(Ignored::NoFile) };
            let reply = Reply { bytes, to: parsed.destination(from, port) };
            Decision::Answer { request: parsed.request, reply }
        }
    }
}

struct Parsed<'a> {
    message: borrowed::Message<'a>,
    chaddr: &'a [u8],
    request: PxeRequest,
    machine_id: Option<Vec<u8>>,
    relay_info: Option<Vec<u8>>,
}

impl<'a> Parsed<'a> {
    fn read(packet: &'a [u8], server: Ipv4Addr) -> Result<Self, Ignored> {
        if packet.len() > MAX_REQUEST {
            return Err(Ignored::Malformed);
        }
        let message = borrowed::Message::new(packet).map_err(|_| Ignored::Malformed)?;
        let is_ethernet = message.htype() == v4::HType::Eth && message.hlen() == 6;
        if message.opcode() != v4::Opcode::BootRequest || !is_ethernet {
            return Err(Ignored::Malformed);
        }
        let chaddr = message.chaddr();
        let mac = chaddr.try_into().ok().and_then(|bytes| MacAddr::new(bytes).ok());
        let mac = mac.ok_or(Ignored::Malformed)?;

        let options = Options::read(&message);
        let discover = match options.get(OptionCode::MessageType) {
            Some([1]) => true,
            Some([3]) => false,
            _ => return Err(Ignored::NotPxe),
        };
        let vendor = options.get(OptionCode::ClassIdentifier).ok_or(Ignored::NotPxe)?;
        let class = VendorClass::from_option(vendor).ok_or(Ignored::NotPxe)?;
        let names_another = options.get(OptionCode::ServerIdentifier).is_some_and(|id| id != server.octets());
        if !discover && names_another {
            return Err(Ignored::OtherServer);
        }
        let user_class = options.get(OptionCode::UserClass);
        let client = Client {
            class,
            arch: client::arch(options.get(OptionCode::ClientSystemArchitecture), vendor),
            is_ipxe: user_class.is_some_and(client::is_ipxe_user_class)
                || options.get(OptionCode::from(IPXE_ENCAPSULATED)).is_some(),
        };
        let machine_id = options.get(OptionCode::ClientMachineIdentifier);
        let uuid = machine_id.and_then(client::product_uuid);
        Ok(Self {
            chaddr,
            request: PxeRequest { mac, discover, client, uuid },
            machine_id: machine_id.map(<[u8]>::to_vec),
            relay_info: options.get(OptionCode::RelayAgentInformation).map(<[u8]>::to_vec),
            message,
        })
    }

    fn destination(&self, from: SocketAddrV4, port: Port) -> Destination {
        let giaddr = self.message.giaddr();
        if !giaddr.is_unspecified() {
            let answers_itself = *from.ip() == giaddr;
            return Destination::Unicast(if answers_itself {
                from
            } else {
                SocketAddrV4::new(giaddr, SERVER_PORT)
            });
        }
        match port {
            Port::Pxe if !from.ip().is_unspecified() => Destination::Unicast(from),
            Port::Dhcp if !self.message.ciaddr().is_unspecified() => {
                Destination::Unicast(SocketAddrV4::new(self.message.ciaddr(), CLIENT_PORT))
            }
            Port::Pxe | Port::Dhcp => Destination::Broadcast,
        }
    }

    fn reply(&self, file: &str, config: &DhcpConfig) -> Option<Vec<u8>> {
        let (kind, ciaddr) = if self.request.discover {
            (MessageType::Offer, Ipv4Addr::UNSPECIFIED)
        } else {
            (MessageType::Ack, self.message.ciaddr())
        };
        let mut reply = v4::Message::new_with_id(
            self.message.xid(),
            ciaddr,
            Ipv4Addr::UNSPECIFIED,
            config.server,
            self.message.giaddr(),
            self.chaddr,
        );
        reply.set_opcode(v4::Opcode::BootReply).set_flags(self.message.flags());
        if file.len() < FILE_FIELD {
            reply.set_fname(file.as_bytes());
        }
        let class = self.request.client.class;
        let options = reply.opts_mut();
        options.insert(DhcpOption::MessageType(kind));
        options.insert(DhcpOption::ServerIdentifier(config.server));
        options.insert(DhcpOption::ClassIdentifier(class.as_str().as_bytes().to_vec()));
        options.insert(DhcpOption::BootfileName(file.as_bytes().to_vec()));
        if config.tftp {
            options.insert(DhcpOption::TFTPServerName(config.server.to_string().into_bytes()));
        }
        if class == VendorClass::Pxe {
            options.insert(DhcpOption::VendorExtensions(PXE_USE_THE_FILE.to_vec()));
        }
        if let Some(id) = &self.machine_id {
            options.insert(DhcpOption::ClientMachineIdentifier(id.clone()));
        }
        let mut bytes = Vec::with_capacity(512);
        reply.encode(&mut Encoder::new(&mut bytes)).ok()?;
        self.echo_relay_info(&mut bytes);
        if bytes.len() < MIN_ANSWER {
            bytes.resize(MIN_ANSWER, 0);
        }
        Some(bytes)
    }

    /// Puts option 82 back byte for byte, as the last option before the end (RFC 3046 section 2.2).
    fn echo_relay_info(&self, bytes: &mut Vec<u8>) {
        const RELAY_INFO: u8 = 82;
        const END: u8 = 255;
        let Some(info) = &self.relay_info else { return };
        if bytes.last() == Some(&END) {
            bytes.pop();
        }
        for piece in info.chunks(usize::from(u8::MAX)) {
            bytes.push(RELAY_INFO);
            bytes.push(u8::try_from(piece.len()).unwrap_or(u8::MAX));
            bytes.extend_from_slice(piece);
        }
        bytes.push(END);
    }
}

/// iPXE's encapsulated options: only iPXE sends them.
const IPXE_ENCAPSULATED: u8 = 175;

/// The options of a request by their first appearance.
struct Options<'a>(Vec<borrowed::DhcpOption<'a>>);

impl<'a> Options<'a> {
    fn read(message: &borrowed::Message<'a>) -> Self {
        Self(message.opts().collect())
    }

    fn get(&self, code: OptionCode) -> Option<&[u8]> {
        self.0.iter().find(|option| option.code() == code).map(borrowed::DhcpOption::data)
    }
}

#[cfg(test)]
#[path = "dhcp_tests.rs"]
mod tests;
