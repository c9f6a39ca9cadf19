/* SPDX-License-Identifier: MIT */
/* src/model/prefix_tree.h -- prefixes that outlive their sequences: a tree whose nodes are cells of group 0. A node's
 * token is the cell's, its depth the cell's position; its children are tokens that came after it. A node also has the
 * cell of its token in each group with a window, while that is held. A sequence begins by sharing the path to a node,
 * and what it computes is added behind it.
 *
 * A root is whose prefixes they are: another key's, or those computed with other adapters, have another root.
 *
 * In each group the cells that are kept stand in a list, the longest unused first. Of group 0 those at its front that
 * have no child and that no sequence holds can go; whoever uses a path puts its end before its beginning, so that
 * parents mostly stand behind their children. Of a window's group any that no sequence holds can go. Kept there is what
 * ends of paths need: of the path that a sequence is just reading only the window behind its end, unless somebody else
 * holds more.
 *
 * Sequences that share begin at position 0 and have no gaps. Nothing allocates after init. */
#ifndef QN_MODEL_PREFIX_TREE_H
#define QN_MODEL_PREFIX_TREE_H

#include "model/memory.h"

typedef struct qn_tree_root {
    int32_t child; /* the first node without a parent; -1: there is none */
} qn_tree_root;

/* What is kept of one group, by use. */
typedef struct qn_tree_group {
    int32_t *newer, *older; /* [n_cells], -1 at the ends */
    int32_t newest, oldest; /* -1: none */
    int32_t *cell;          /* [cells of group 0] a node's cell here, -1: none is held; NULL in group 0: the node */
    int32_t *node;          /* [n_cells] whose it is; NULL in group 0 */
    bool *passing;          /* [n_cells] kept for a sequence that is reading, until it is further; NULL in group 0 */
} qn_tree_group;

typedef struct qn_tree {
    qn_memory *memory;
    /* [cells of group 0], -1: there is none. before: the sibling. */
    int32_t *parent, *child, *next, *before;
    qn_tree_root **root; /* [cells of group 0], of nodes without a parent */
    int32_t *path;       /* [cells of group 0] scratch */
    qn_tree_group groups[QN_MAX_GROUPS];
    int32_t n_leaves;
    bool emptied; /* set when a root has no more nodes; the caller clears it */
} qn_tree;

/* How far a sequence's list is a path of the tree: its first n entries are, down to `node` (-1: none). tail: from this
 * position on cells may be kept that go when the sequence is further. */
typedef struct qn_tree_place {
    int32_t node, n;
    int32_t tail[QN_MAX_GROUPS];
} qn_tree_place;

uint64_t qn__tree_bytes(const qn_kv_size *sizes, int32_t n_groups); /* what init allocates */
qn_status qn__tree_init(qn_tree *t, qn_memory *memory, qn_error *err);
void qn__tree_deinit(qn_tree *t); /* only its tables: the memory goes too */

/* How many tokens at the beginning of tokens[0 .. n) a sequence can share. *n_busy: of these the cells of group 0 that
 * sequences hold now. */
int32_t qn__tree_find(const qn_tree *t, const qn_tree_root *root, const qn_token *tokens, int32_t n, int32_t *n_busy);
/* A sequence that is empty begins with the first n of these tokens, as many as were found. */
qn_tree_place qn__tree_share(qn_tree *t, const qn_tree_root *root, int32_t seq, const qn_token *tokens, int32_t n);
/* The sequence's entries from the place on to n go to the tree; of a cell that is there already for the same token the
 * tree's stays. end: the windows behind it are kept for good, as a place to go on from. */
void qn__tree_add(qn_tree *t, qn_tree_root *root, int32_t seq, qn_tree_place *at, int32_t n, bool end);
/* The path to a node was just of use. */
void qn__tree_use(qn_tree *t, int32_t node);
/* Gives up to n cells of a group free; returns how many. */
int32_t qn__tree_evict(qn_tree *t, int32_t group, int32_t n);

/* Counts everything anew: lists, tree and free cells make up each group. For checked builds and tests; `seen` has a
 * place for each cell of the largest group. */
bool qn__tree_adds_up(const qn_tree *t, uint16_t *seen);

#endif
