# deploy: manual pages and what is installed beside the programs.
dist_man_MANS += deploy/man/egressd.8 deploy/man/egress-sidecar.8 deploy/man/egressctl.1
nodist_man5_MANS = deploy/man/egressd.conf.5
CLEANFILES += deploy/man/egressd.conf.5
deploy/man/egressd.conf.5: $(srcdir)/deploy/man/make_conf_5.py $(srcdir)/src/config/daemon_options.def \
		$(srcdir)/src/config/listener_options.def $(srcdir)/src/config/sidecar_options.def $(srcdir)/src/config/serve_options.def
	@mkdir -p deploy/man
	$(AM_V_GEN)PYTHONDONTWRITEBYTECODE=1 $(PYTHON) $(srcdir)/deploy/man/make_conf_5.py $(srcdir)/src/config >$@.new && mv $@.new $@
EXTRA_DIST += deploy/man/make_conf_5.py deploy/quickstart deploy/packages deploy/install-packages deploy/demo deploy/fleet deploy/systemd deploy/nftables.conf policy
EXTRA_DIST += deploy/egressd.conf.example deploy/egress-serve.conf.example deploy/unbound.conf
