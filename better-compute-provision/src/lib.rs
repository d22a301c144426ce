//! Profiles, the step registry, the workflow engine and user data.
