# src/cli: part of the build; see README.md here
