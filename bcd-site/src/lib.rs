//! The site agent: drives the BMCs of a site, boots its machines over the network, and caches images.
//!
//! Its rooms: [`config`] turns `config.toml` into a checked configuration; [`boot`] is the boot server (proxy
//! DHCP, TFTP, iPXE scripts over HTTP) with the lease, the entries and the grants that decide who is answered;
//! [`cache`] keeps images by their digest; [`run`] puts the servers together.

pub mod boot;
