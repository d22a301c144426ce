//! The kinds of command, who runs them, and what each may destroy.

use super::AgentRole;

/// One kind of command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The name on the wire.
    pub name: &'static str,
    /// The roles that run it.
    pub roles: &'static [AgentRole],
    /// Its operations; empty when it has but one and takes no `operation`.
    pub operations: &'static [Operation],
    /// Whether running it destroys, for a kind without operations.
    pub destructive: bool,
    /// Whether it may run again when the agent died in the middle.
    pub repeatable: bool,
}

/// One operation of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The name on the wire.
    pub name: &'static str,
    /// Whether it destroys: needs the boot id and a batch.
    pub destructive: bool,
    /// Whether an agent without command roots runs it all the same.
    pub harmless: bool,
}

const fn operation(name: &'static str) -> Operation {
    Operation { name, destructive: false, harmless: false }
}

const fn harmless(name: &'static str) -> Operation {
    Operation { name, destructive: false, harmless: true }
}

const fn destructive(name: &'static str) -> Operation {
    Operation { name, destructive: true, harmless: false }
}

const SITE: &[AgentRole] = &[AgentRole::Site];
const RAMDISK: &[AgentRole] = &[AgentRole::Ramdisk];
const MACHINE: &[AgentRole] = &[AgentRole::Ramdisk, AgentRole::Node];

const fn kind(name: &'static str, roles: &'static [AgentRole]) -> Kind {
    Kind { name, roles, operations: &[], destructive: false, repeatable: false }
}

/// Every kind there is.
pub const KINDS: &[Kind] = &[
    Kind {
        operations: &[harmless("power.getPower"), operation("power.setPower")],
        ..kind("bmc.power", SITE)
    },
    Kind {
        operations: &[
            operation("management.setBootDevice"),
            operation("management.getBootDevice"),
            destructive("management.rotateCredential"),
        ],
        ..kind("bmc.management", SITE)
    },
    Kind { operations: &[harmless("inspect.oob")], repeatable: true, ..kind("bmc.inspect", SITE) },
    Kind { operations: &[operation("media.insert"), operation("media.eject")], ..kind("bmc.media", SITE) },
    Kind {
        operations: &[destructive("firmware.update"), operation("firmware.inventory")],
        ..kind("bmc.firmware", SITE)
    },
    Kind { repeatable: true, ..kind("boot.prepareRamdisk", SITE) },
    Kind { repeatable: true, ..kind("boot.cleanUp", SITE) },
    kind("site.httpProxy", SITE),
    Kind { repeatable: true, ..kind("inventory.refresh", MACHINE) },
    Kind { repeatable: true, ..kind("diag.dcgm", MACHINE) },
    kind("gpu.reset", &[AgentRole::Node]),
    Kind { destructive: true, ..kind("disk.wipe", RAMDISK) },
    Kind { destructive: true, ..kind("deploy.image", RAMDISK) },
    Kind { destructive: true, ..kind("boot.kexec", RAMDISK) },
];

impl Kind {
    /// The kind of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// The operation of this name, where the kind has operations.
    #[must_use]
    pub fn operation(&self, name: &str) -> Option<&'static Operation> {
        self.operations.iter().find(|operation| operation.name == name)
    }

    /// Whether it destroys, with this operation.
    #[must_use]
    pub fn is_destructive(&self, operation: &str) -> bool {
        self.destructive || self.operation(operation).is_some_and(|operation| operation.destructive)
    }

    /// Whether an agent without command roots in its bundle runs it: `inventory.refresh` and two reads of BMCs.
    #[must_use]
    pub fn is_harmless(&self, operation: &str) -> bool {
        self.name == "inventory.refresh"
            || self.operation(operation).is_some_and(|operation| operation.harmless)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_destructive_ones_destroy() {
        let mut destroying = Vec::new();
        for kind in KINDS {
            if kind.destructive {
                destroying.push(kind.name);
            }
            destroying.extend(
                kind.operations
                    .iter()
                    .filter(|operation| operation.destructive)
                    .map(|operation| operation.name),
            );
        }
        destroying.sort_unstable();
        assert_eq!(
            destroying,
            ["boot.kexec", "deploy.image", "disk.wipe", "firmware.update", "management.rotateCredential"]
        );
    }

    #[test]
    fn nothing_that_destroys_is_harmless_or_repeatable() {
        for kind in KINDS {
            for operation in kind.operations {
                assert!(!(operation.destructive && operation.harmless), "{}", operation.name);
                assert!(!(operation.destructive && kind.repeatable), "{}", operation.name);
            }
            assert!(!(kind.destructive && kind.repeatable), "{}", kind.name);
        }
    }
}
