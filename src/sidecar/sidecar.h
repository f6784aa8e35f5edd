/*
 * The sidecar as one object: the source of policy, the connection to the daemon (again and again), what is handed over, freshness,
 * revocations by hand, and the commands that the daemon forwards. Knows the order of things and leaves each to its module.
 */
#ifndef EGRESS_SIDECAR_SIDECAR_H
#define EGRESS_SIDECAR_SIDECAR_H

#include "base/attr.h"
#include "base/err.h"
#include "config/load.h"
#include "net/loop.h"
#include "source/driver.h"
#include "source/sticky.h"

struct sidecar;

struct sidecar_parts {
	struct config *config;  /* referenced */
	const char *config_path; /* borrowed for good: read again on reload */
	struct driver *driver;  /* taken over, also on failure */
	struct sticky *sticky;  /* taken over, likewise */
};

/* Open the driver that `config` asks for; faults of the root go to `faults`. UNSUPPORTED for what this build has no driver of. */
enum err sidecar_open_driver(struct loop *loop, const struct config *config, struct fault_list *faults,
			     struct driver **out_driver) ATTR_MUST_CHECK;
/* Fill in what the machine says and the file leaves out (name servers), before the configuration is shared. */
enum err sidecar_complete_config(struct config *config) ATTR_MUST_CHECK;

/* Start: dial the daemon, read the source. */
enum err sidecar_create(struct loop *loop, const struct sidecar_parts *parts, struct sidecar **out_sidecar) ATTR_MUST_CHECK;
/* Accepts NULL. Sockets and files stay with the daemon, deadlines run on. */
void sidecar_destroy(struct sidecar *s);
/* Stop the loop soon: at once without a daemon, else when it has had time to end as well, and its last records with it. */
void sidecar_leave(struct sidecar *s);
/* Read the configuration again and send what changed; a faulty one is said and changes nothing. Opens the records file again. */
void sidecar_reload(struct sidecar *s);

#endif
