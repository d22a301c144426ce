pub mod client;
pub mod dhcp;
pub mod discovery;
pub mod entry;
pub mod fence;
pub mod grant;
pub mod tftp;
