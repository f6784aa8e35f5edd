/*
 * A folder of signed documents as a source of frames: keyset, m, beat, l/<lease>, r/<hex>, one envelope a file, each put there by rename.
 * Trusts nothing about the folder: who may write there may withhold, and no more.
 */
#ifndef EGRESS_STORE_FRAMES_FILE_H
#define EGRESS_STORE_FRAMES_FILE_H

#include "base/attr.h"
#include "base/err.h"
#include "net/loop.h"
#include "store/folder_notify.h"
#include "store/frames.h"

/*
 * `folder` is copied; `notify` is borrowed until close, NULL: one of its own. SYSTEM without inotify; a folder that is not there yet is waited
 * for.
 */
enum err frames_file_open(struct loop *loop, const char *folder, struct folder_notify *notify, struct frames_source **out_source)
	ATTR_MUST_CHECK;

#endif
