/* Intrusive doubly linked list that knows its length. A node is in at most one list. */
#ifndef EGRESS_BASE_LIST_H
#define EGRESS_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"

struct list_node {
	struct list_node *prev, *next; /* borrowed; both NULL while in no list */
};

struct list {
	struct list_node head; /* sentinel */
	size_t count;
};

static inline void list_init(struct list *l)
{
	l->head.prev = l->head.next = &l->head;
	l->count = 0;
}

static inline bool list_node_is_linked(const struct list_node *n)
{
	return n->next != NULL;
}

static inline void list_insert_after(struct list *l, struct list_node *where, struct list_node *n)
{
	n->prev = where;
	n->next = where->next;
	where->next->prev = n;
	where->next = n;
	l->count++;
}

static inline void list_push_back(struct list *l, struct list_node *n)
{
	list_insert_after(l, l->head.prev, n);
}

static inline void list_push_front(struct list *l, struct list_node *n)
{
	list_insert_after(l, &l->head, n);
}

/* Take `n` out of `l`; does nothing when it is in no list. */
static inline void list_remove(struct list *l, struct list_node *n)
{
	if (!list_node_is_linked(n))
		return;
	n->prev->next = n->next;
	n->next->prev = n->prev;
	n->prev = n->next = NULL;
	l->count--;
}

static inline struct list_node *list_first(const struct list *l)
{
	return l->count == 0 ? NULL : l->head.next;
}

static inline struct list_node *list_pop_front(struct list *l)
{
	struct list_node *n = list_first(l);

	if (n != NULL)
		list_remove(l, n);
	return n;
}

/* Walk; the body may remove the node it stands on, and no other. */
#define LIST_FOREACH(node, next_node, list)                                                        \
	for ((node) = (list)->head.next, (next_node) = (node)->next; (node) != &(list)->head;      \
	     (node) = (next_node), (next_node) = (node)->next)

#endif
