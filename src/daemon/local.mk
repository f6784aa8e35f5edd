# src/daemon: part of the build; see README.md here
