/* From the options to the source of frames that they name, for sources over the network. */
#ifndef EGRESS_STORE_FRAMES_REMOTE_H
#define EGRESS_STORE_FRAMES_REMOTE_H

#include "base/attr.h"
#include "base/err.h"
#include "config/load.h"
#include "net/loop.h"
#include "store/frames.h"

/*
 * An https: or etcd: source. UNSUPPORTED for any other; SYSTEM when the password file cannot be read; INVALID when an address, the cell, a
 * password or half of a certificate pair cannot be used. `options` are borrowed for the call.
 */
enum err frames_remote_open(struct loop *loop, const struct sidecar_options *options, struct frames_source **out_source)
	ATTR_MUST_CHECK;

#endif
