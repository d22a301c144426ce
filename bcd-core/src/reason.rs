//! Every `details.reason` and every reason a command fails with, in one table.
//!
//! `cargo xtask fixtures` prints the table to `fixtures/reasons.json`, so that another implementation
//! and the documentation use the same words.

use std::fmt;

/// One reason out of the table below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reason(&'static str);

impl Reason {
    /// The reason as it stands in JSON, such as `wipe-unverified`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl PartialEq<str> for Reason {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

macro_rules! reasons {
    ($($name:ident = $text:literal, $meaning:literal;)*) => {
        $(#[doc = $meaning] pub const $name: Reason = Reason($text);)*
        /// Every reason with what it means.
        pub const ALL: &[(Reason, &str)] = &[$(($name, $meaning)),*];
    };
}

reasons! {
    // Signed things and their recipients.
    BAD_SIGNATURE = "bad-signature", "A signature is missing, malformed, of another purpose or by a key that is not trusted for it.";
    MALFORMED = "malformed", "A document does not parse, is too large, or has a field it may not have.";
    WRONG_RECIPIENT = "wrong-recipient", "A command is for another node or another key of this node.";
    BOOT_CHANGED = "boot-changed", "A command was made for another boot of this machine.";
    EXPIRED = "expired", "A signed thing or a token is past its time.";
    NOT_YET_VALID = "not-yet-valid", "A signed thing is from the future.";
    UNKNOWN_KIND = "unknown-kind", "The agent's role has no such kind of command.";
    INVALID_PAYLOAD = "invalid-payload", "A command's payload is not what its kind takes.";
    NO_ROOTS = "no-roots", "The trust bundle has no command roots, so only harmless reads are run.";
    BATCH_REQUIRED = "batch-required", "A destructive command carries no batch, or its proof does not hold.";
    QUORUM_MISSING = "quorum-missing", "A batch larger than the quorum's bound lacks approvals.";
    COMMAND_CONFLICT = "command-conflict", "A known command id came with another payload.";
    JOURNAL_FULL = "journal-full", "The agent's journal has no room for another command.";
    INTERRUPTED = "interrupted", "The agent stopped while the command ran; whether it took effect is not known.";
    CANCELLED = "cancelled", "The control plane took the command back.";
    BUSY = "busy", "The agent runs as many commands as it may.";

    // Pins and joins.
    PIN_MISMATCH = "pin-mismatch", "The peer's key is not the pinned one.";
    TOKEN_UNKNOWN = "token-unknown", "No such join token.";
    TOKEN_USED = "token-used", "The join token was used already, by another key.";
    STALE_EPOCH = "stale-epoch", "The assertion's signer no longer holds the site's boot lease at that epoch.";
    ASSERTION_REPLAYED = "assertion-replayed", "A discovery assertion was used before.";
    ASSERTION_MISMATCH = "assertion-mismatch", "The assertion does not belong to this token, entry or site.";
    NOT_EXPECTED = "not-expected", "No workflow of that node waits for this join.";
    IDENTITY_MISMATCH = "identity-mismatch", "The join is for another node, role or site than the token.";
    MACHINE_IDENTITY_MISMATCH = "machine-identity-mismatch", "The machine that booted is not the one enrolled.";
    REVOKED = "revoked", "The identity was revoked.";
    KEY_MISMATCH = "key-mismatch", "The certificate or the answer is for another key.";
    REPLAYED = "replayed", "The answer belongs to another request.";
    RATE_LIMITED = "rate-limited", "Too many requests from one source.";

    // Trust bundle and node spec.
    BUNDLE_ROLLBACK = "bundle-rollback", "A trust bundle is older than the one held, or lost its roots.";
    SPEC_ROLLBACK = "spec-rollback", "A node spec is older than the one held, or differs at the same generation.";

    // Images.
    UNSIGNED = "unsigned", "The image has no signature.";
    SIGNATURE = "signature", "The image's signature does not verify against its allowlist.";

    // The boot server.
    ENTRY_LIMIT = "entry-limit", "The site agent has as many boot entries as it takes.";
    LEASE_NOT_HELD = "lease-not-held", "The site agent does not hold the boot lease.";
    BOOT_CONFLICT = "boot-conflict", "Another machine asked for this machine's boot entry.";

    // BMCs.
    UNREACHABLE = "unreachable", "The BMC does not answer.";
    TLS = "tls", "The TLS handshake with the BMC failed.";
    AUTH_FAILED = "auth-failed", "The BMC refused the credential.";
    PASSWORD_CHANGE_REQUIRED = "password-change-required", "The BMC wants its password changed first.";
    NOT_FOUND = "not-found", "The BMC has no such resource.";
    UNSUPPORTED = "unsupported", "The BMC can't do this.";
    UNSUPPORTED_DRIVER = "unsupported-driver", "The site agent has no such driver.";
    INVALID_CONFIG = "invalid-config", "The driver's configuration is wrong.";
    REFUSED = "refused", "The BMC refused the request.";
    TIMEOUT = "timeout", "The BMC or the machine took too long.";
    ANSWER_TOO_LARGE = "answer-too-large", "The answer is larger than is read.";
    INVALID_ANSWER = "invalid-answer", "The answer is not what the protocol says.";
    CREDENTIAL_UNAVAILABLE = "credential-unavailable", "The credential could not be fetched.";
    IMAGE_UNVERIFIED = "image-unverified", "The firmware image could not be verified.";
    FAILED = "failed", "The BMC accepted the request and did not carry it out.";

    // The ramdisk.
    NO_ROOT_DISK = "no-root-disk", "No disk fits the root-disk hint.";
    DIGEST_MISMATCH = "digest-mismatch", "The image's bytes have another digest than the catalog's.";
    IMAGE_TOO_LARGE = "image-too-large", "The image does not fit the disk.";
    IMAGE_INVALID = "image-invalid", "The image is not what it was said to be.";
    SOURCE_FAILED = "source-failed", "Neither the cache nor the source gave the whole image.";
    WRITE_FAILED = "write-failed", "Writing to the disk failed.";
    USER_DATA_FAILED = "user-data-failed", "User data or join files could not be written into the system.";
    NO_KERNEL = "no-kernel", "The written system has no kernel to start.";
    KEXEC_FAILED = "kexec-failed", "The machine could not start the written kernel.";
    WIPE_UNVERIFIED = "wipe-unverified", "At least one disk could not be proven wiped.";
    NO_DISKS = "no-disks", "The machine has no disk.";
    DCGM_MISSING = "dcgm-missing", "The DCGM tools are not installed.";
    DCGM_FAILED = "dcgm-failed", "A GPU diagnostic failed.";

    // Metal.
    FORBIDDEN = "forbidden", "The caller may not read or do this.";
    NODE_OFFLINE = "node-offline", "The node has no session.";
    WORKFLOW_ACTIVE = "workflow-active", "A workflow runs on this machine already.";
    WRONG_STATE = "wrong-state", "The machine's state does not allow this.";
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn reasons_are_unique_kebab_case_words() {
        let mut seen = HashSet::new();
        for (reason, meaning) in ALL {
            assert!(seen.insert(reason.as_str()), "{reason} is there twice");
            assert!(reason.as_str().bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{reason}");
            assert!(meaning.ends_with('.'), "{reason}");
        }
    }
}
