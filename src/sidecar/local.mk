# src/sidecar: part of the build; see README.md here
