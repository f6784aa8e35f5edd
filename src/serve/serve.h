/*
 * A sidecar that feeds no daemon but hands on what an authority signs: the cells of a folder, over HTTPS, into etcd, or both. Opens and
 * introduces; how each of them works is its module's. Called by main.
 */
#ifndef EGRESS_SERVE_SERVE_H
#define EGRESS_SERVE_SERVE_H

#include "base/attr.h"
#include "base/err.h"
#include "config/load.h"
#include "net/loop.h"

struct serve;

/* `config` has [serve] and is referenced. What fails is said in the log. */
enum err serve_open(struct loop *loop, struct config *config, struct serve **out_serve) ATTR_MUST_CHECK;
/* Accepts NULL. */
void serve_close(struct serve *s);
/* Read the configuration at `path` again: certificates and keys apply at once. A faulty one is said and changes nothing. */
void serve_reload(struct serve *s, const char *path);

#endif
