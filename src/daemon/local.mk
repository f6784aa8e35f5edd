# src/daemon: part of the build once the sandbox is in; see README.md here
