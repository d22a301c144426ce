//! The agent in the PXE ramdisk.
