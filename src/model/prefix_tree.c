/* SPDX-License-Identifier: MIT */
/* src/model/prefix_tree.c -- see prefix_tree.h for what always holds. */
#include "model/prefix_tree.h"
#include "base/mem.h"
#include <string.h>

/* ---- init ---- */

enum { NODE_LINKS = 5 }; /* parent, child, next, before, path */

uint64_t qn__tree_bytes(const qn_kv_size *sizes, int32_t n_groups)
{
    uint64_t bytes = (uint64_t)sizes[0].n_cells * (NODE_LINKS * sizeof(int32_t) + sizeof(qn_tree_root *));
    for (int32_t g = 0; g < n_groups; g++) bytes += 2 * (uint64_t)sizes[g].n_cells * sizeof(int32_t);
    for (int32_t g = 1; g < n_groups; g++)
        bytes += (uint64_t)sizes[0].n_cells * sizeof(int32_t) +
                 (uint64_t)sizes[g].n_cells * (sizeof(int32_t) + sizeof(bool));
    return bytes;
}

static bool init_group(qn_tree *t, int32_t g)
{
    qn_tree_group *group = &t->groups[g];
    const size_t n = (size_t)t->memory->kv[g].size.n_cells, n_nodes = (size_t)t->memory->kv->size.n_cells;
    group->newest = group->oldest = -1;
    group->newer = qn__alloc(n * sizeof(int32_t));
    group->older = qn__alloc(n * sizeof(int32_t));
    if (!group->newer || !group->older) return false;
    if (g == 0) return true;
    group->cell = qn__alloc(n_nodes * sizeof(int32_t));
    group->node = qn__alloc(n * sizeof(int32_t));
    group->passing = qn__calloc(n, sizeof(bool));
    return group->cell && group->node && group->passing;
}

qn_status qn__tree_init(qn_tree *t, qn_memory *memory, qn_error *err)
{
    const size_t n = (size_t)memory->kv->size.n_cells;
    *t = (qn_tree){.memory = memory};
    t->parent = qn__alloc(NODE_LINKS * n * sizeof(int32_t));
    t->root = qn__calloc(n, sizeof(*t->root));
    bool ok = t->parent && t->root;
    for (int32_t g = 0; g < memory->n_groups && ok; g++) ok = init_group(t, g);
    if (!ok) {
        qn__tree_deinit(t);
        return QN_FAIL(err, nomem, "out of memory for a tree of %d prefixes", memory->kv->size.n_cells);
    }
    t->child = t->parent + n;
    t->next = t->child + n;
    t->before = t->next + n;
    t->path = t->before + n;
    return QN_OK;
}

void qn__tree_deinit(qn_tree *t)
{
    for (int32_t g = 0; g < QN_MAX_GROUPS; g++) {
        qn__free(t->groups[g].newer);
        qn__free(t->groups[g].older);
        qn__free(t->groups[g].cell);
        qn__free(t->groups[g].node);
        qn__free(t->groups[g].passing);
    }
    qn__free(t->parent);
    qn__free(t->root);
    *t = (qn_tree){0};
}

/* ---- the order of use ---- */

static void unlink_use(qn_tree_group *g, int32_t cell)
{
    const int32_t newer = g->newer[cell], older = g->older[cell];
    if (older < 0)
        g->oldest = newer;
    else
        g->newer[older] = newer;
    if (newer < 0)
        g->newest = older;
    else
        g->older[newer] = older;
}

static void link_newest(qn_tree_group *g, int32_t cell)
{
    g->newer[cell] = -1;
    g->older[cell] = g->newest;
    if (g->newest < 0)
        g->oldest = cell;
    else
        g->newer[g->newest] = cell;
    g->newest = cell;
}

static void renew(qn_tree_group *g, int32_t cell)
{
    if (g->newest == cell) return;
    unlink_use(g, cell);
    link_newest(g, cell);
}

/* The nodes of a path, in order; returns how many. */
static int32_t path_to(const qn_tree *t, int32_t node)
{
    const int32_t n = node < 0 ? 0 : t->memory->kv->pos[node] + 1;
    for (int32_t i = n; i-- > 0; node = t->parent[node]) t->path[i] = node;
    return n;
}

void qn__tree_use(qn_tree *t, int32_t node)
{
    const int32_t n = path_to(t, node);
    for (int32_t i = n; i-- > 0;) renew(&t->groups[0], t->path[i]);
    /* Of a window the far end is the first that an end can do without. */
    for (int32_t g = 1; g < t->memory->n_groups; g++)
        for (int32_t i = 0; i < n; i++)
            if (t->groups[g].cell[t->path[i]] >= 0) renew(&t->groups[g], t->groups[g].cell[t->path[i]]);
}

/* ---- nodes ---- */

static int32_t *first_child(const qn_tree *t, qn_tree_root *root, int32_t node)
{
    return node < 0 ? &root->child : &t->child[node];
}

static int32_t child_of(const qn_tree *t, const qn_tree_root *root, int32_t node, qn_token token)
{
    int32_t child = node < 0 ? root->child : t->child[node];
    while (child >= 0 && t->memory->kv->token[child] != token) child = t->next[child];
    return child;
}

static void insert(qn_tree *t, qn_tree_root *root, int32_t parent, int32_t node)
{
    int32_t *first = first_child(t, root, parent);
    t->n_leaves += parent < 0 || *first >= 0;
    t->parent[node] = parent;
    t->child[node] = -1;
    t->before[node] = -1;
    t->next[node] = *first;
    if (*first >= 0) t->before[*first] = node;
    *first = node;
    t->root[node] = parent < 0 ? root : NULL;
    for (int32_t g = 1; g < t->memory->n_groups; g++) t->groups[g].cell[node] = -1;
    link_newest(&t->groups[0], node);
    qn__kv_keep(t->memory->kv, node);
}

static void keep_window(qn_tree *t, int32_t g, int32_t node, int32_t cell)
{
    t->groups[g].cell[node] = cell;
    t->groups[g].node[cell] = node;
    t->groups[g].passing[cell] = true;
    link_newest(&t->groups[g], cell);
    qn__kv_keep(&t->memory->kv[g], cell);
}

static void let_window_go(qn_tree *t, int32_t g, int32_t node)
{
    const int32_t cell = t->groups[g].cell[node];
    t->groups[g].cell[node] = -1;
    unlink_use(&t->groups[g], cell);
    qn__kv_let_go(&t->memory->kv[g], cell);
}

static void remove_node(qn_tree *t, int32_t node)
{
    const int32_t parent = t->parent[node], next = t->next[node], before = t->before[node];
    int32_t *first = first_child(t, t->root[node], parent);
    for (int32_t g = 1; g < t->memory->n_groups; g++)
        if (t->groups[g].cell[node] >= 0) let_window_go(t, g, node);
    if (before < 0)
        *first = next;
    else
        t->next[before] = next;
    if (next >= 0) t->before[next] = before;
    t->n_leaves -= parent < 0 || *first >= 0;
    if (parent < 0 && *first < 0) t->emptied = true;
    unlink_use(&t->groups[0], node);
    qn__kv_let_go(t->memory->kv, node);
}

/* ---- sharing ---- */

/* Tokens that the next one sees behind it. */
static int32_t behind(const qn_tree *t, int32_t g) { return t->memory->kv[g].size.window - 1; }

int32_t qn__tree_find(const qn_tree *t, const qn_tree_root *root, const qn_token *tokens, int32_t n, int32_t *n_busy)
{
    int32_t node = -1, found = 0, busy = 0, run[QN_MAX_GROUPS] = {0};
    *n_busy = 0;
    for (int32_t i = 0; i < n; i++) {
        bool whole = true;
        node = child_of(t, root, node, tokens[i]);
        if (node < 0) break;
        busy += t->memory->kv->refs[node] > 1;
        for (int32_t g = 1; g < t->memory->n_groups; g++) {
            run[g] = t->groups[g].cell[node] >= 0 ? run[g] + 1 : 0;
            whole = whole && (run[g] > i || run[g] >= behind(t, g));
        }
        if (!whole) continue;
        found = i + 1;
        *n_busy = busy;
    }
    return found;
}

qn_tree_place qn__tree_share(qn_tree *t, const qn_tree_root *root, int32_t seq, const qn_token *tokens, int32_t n)
{
    qn_tree_place at = {.node = -1, .n = n};
    for (int32_t i = 0; i < n; i++) t->path[i] = at.node = child_of(t, root, at.node, tokens[i]);
    qn__kv_share(t->memory->kv, seq, t->path, n, 0);
    for (int32_t g = 1; g < t->memory->n_groups; g++) {
        const int32_t first = n > behind(t, g) ? n - behind(t, g) : 0;
        for (int32_t i = first; i < n; i++) t->path[i] = t->groups[g].cell[t->path[i]];
        qn__kv_share(&t->memory->kv[g], seq, t->path + first, n - first, first);
        for (int32_t i = first; i < n; i++) t->path[i] = t->groups[g].node[t->path[i]];
        at.tail[g] = n;
    }
    return at;
}

/* ---- adding ---- */

/* The place of the sequence's entry i in the list of a window's group; negative: it was forgotten. */
static int32_t entry_of(const qn_kv *kv, int32_t seq, int32_t i) { return i - kv->gone[seq]; }

/* The window's cell of entry i, which is `node`, for the tree: one cell does for both. */
static void add_window(qn_tree *t, int32_t g, int32_t seq, int32_t i, int32_t node)
{
    qn_kv *kv = &t->memory->kv[g];
    const int32_t entry = entry_of(kv, seq, i), kept = t->groups[g].cell[node];
    if (entry < 0) return;
    const int32_t cell = qn__kv_list(kv, seq)[entry];
    if (kept < 0)
        keep_window(t, g, node, cell);
    else if (kept != cell)
        qn__kv_exchange(kv, seq, entry, kept);
}

/* What was kept for who reads, and lies further behind than a window and somewhat to go back, goes. */
static void trim(qn_tree *t, int32_t g, int32_t seq, qn_tree_place *at)
{
    const qn_kv *kv = &t->memory->kv[g];
    const int32_t end = at->n - behind(t, g) - QN_KV_BACK;
    int32_t node = at->node;
    for (int32_t i = at->n; i-- > at->tail[g]; node = t->parent[node]) {
        const int32_t cell = t->groups[g].cell[node];
        if (i >= end || cell < 0 || !t->groups[g].passing[cell]) continue;
        if (kv->refs[cell] > 1 + (entry_of(kv, seq, i) >= 0)) continue; /* another sequence holds it */
        let_window_go(t, g, node);
    }
    if (end > at->tail[g]) at->tail[g] = end;
}

/* From here somebody may go on: the window behind the place stays, and what of it the tree gave up is taken again. */
static void keep_end(qn_tree *t, int32_t seq, qn_tree_place *at)
{
    for (int32_t g = 1; g < t->memory->n_groups; g++) {
        int32_t node = at->node;
        trim(t, g, seq, at);
        for (int32_t i = at->n; i-- > 0 && i >= at->n - behind(t, g) - QN_KV_BACK; node = t->parent[node]) {
            if (t->groups[g].cell[node] < 0) add_window(t, g, seq, i, node);
            if (t->groups[g].cell[node] >= 0) t->groups[g].passing[t->groups[g].cell[node]] = false;
        }
        at->tail[g] = at->n;
    }
}

void qn__tree_add(qn_tree *t, qn_tree_root *root, int32_t seq, qn_tree_place *at, int32_t n, bool end)
{
    qn_kv *kv = t->memory->kv;
    for (; at->n < n; at->n++) {
        const int32_t cell = qn__kv_list(kv, seq)[at->n];
        int32_t node = child_of(t, root, at->node, kv->token[cell]);
        if (node < 0) {
            if (*first_child(t, root, at->node) >= 0) keep_end(t, seq, at); /* others may part here too */
            insert(t, root, at->node, cell);
            node = cell;
        } else if (node != cell) {
            qn__kv_exchange(kv, seq, at->n, node);
        }
        for (int32_t g = 1; g < t->memory->n_groups; g++) add_window(t, g, seq, at->n, node);
        at->node = node;
    }
    for (int32_t g = 1; g < t->memory->n_groups; g++) trim(t, g, seq, at);
    if (end) keep_end(t, seq, at);
}

/* ---- giving up ---- */

int32_t qn__tree_evict(qn_tree *t, int32_t group, int32_t n)
{
    qn_tree_group *g = &t->groups[group];
    const qn_kv *kv = &t->memory->kv[group];
    int32_t freed = 0;
    /* What cannot go is of use, or has a child that is: it goes to the end. */
    for (int32_t left = kv->n_kept; left > 0 && freed < n && kv->n_kept > kv->n_both; left--) {
        const int32_t cell = g->oldest;
        if (kv->refs[cell] > 1 || (group == 0 && t->child[cell] >= 0)) {
            renew(g, cell);
            continue;
        }
        if (group == 0)
            remove_node(t, cell);
        else
            let_window_go(t, group, g->node[cell]);
        freed++;
    }
    return freed;
}

/* ---- counting anew ---- */

static bool group_adds_up(const qn_tree *t, int32_t group, uint16_t *seen)
{
    const qn_kv *kv = &t->memory->kv[group];
    int32_t used = 0, kept = 0, both = 0, in_order = 0;
    memset(seen, 0, (size_t)kv->size.n_cells * sizeof(*seen));
    for (int32_t q = 0; q < kv->size.n_seq; q++)
        for (int32_t i = 0; i < kv->len[q]; i++) seen[qn__kv_list(kv, q)[i]]++;
    for (int32_t c = 0; c < kv->size.n_cells; c++) {
        if (kv->refs[c] != seen[c] + kv->kept[c]) return false;
        used += kv->refs[c] > 0;
        kept += kv->kept[c];
        both += kv->kept[c] && seen[c];
    }
    for (int32_t c = t->groups[group].oldest; c >= 0; c = t->groups[group].newer[c]) {
        if (!kv->kept[c] || ++in_order > kept) return false;
        const int32_t newer = t->groups[group].newer[c];
        if ((newer < 0 ? t->groups[group].newest : t->groups[group].older[newer]) != c) return false;
    }
    return used == kv->n_used && kept == kv->n_kept && both == kv->n_both && in_order == kept;
}

static bool node_adds_up(const qn_tree *t, int32_t node, int32_t *n_leaves)
{
    const qn_kv *kv = t->memory->kv;
    const int32_t parent = t->parent[node];
    if (kv->pos[node] != (parent < 0 ? 0 : kv->pos[parent] + 1)) return false;
    if (parent < 0 ? !t->root[node] : !kv->kept[parent]) return false;
    int32_t sibling = parent < 0 ? t->root[node]->child : t->child[parent], same = 0;
    for (; sibling >= 0; sibling = t->next[sibling]) {
        if (t->parent[sibling] != parent || !kv->kept[sibling]) return false;
        same += kv->token[sibling] == kv->token[node];
    }
    if (same != 1) return false;
    for (int32_t g = 1; g < t->memory->n_groups; g++) {
        const int32_t cell = t->groups[g].cell[node];
        const qn_kv *window = &t->memory->kv[g];
        if (cell < 0) continue;
        if (!window->kept[cell] || t->groups[g].node[cell] != node) return false;
        if (window->pos[cell] != kv->pos[node] || window->token[cell] != kv->token[node]) return false;
    }
    *n_leaves += t->child[node] < 0;
    return true;
}

bool qn__tree_adds_up(const qn_tree *t, uint16_t *seen)
{
    int32_t n_leaves = 0, n_windows[QN_MAX_GROUPS] = {0};
    for (int32_t g = 0; g < t->memory->n_groups; g++)
        if (!group_adds_up(t, g, seen)) return false;
    for (int32_t node = 0; node < t->memory->kv->size.n_cells; node++) {
        if (!t->memory->kv->kept[node]) continue;
        if (!node_adds_up(t, node, &n_leaves)) return false;
        for (int32_t g = 1; g < t->memory->n_groups; g++) n_windows[g] += t->groups[g].cell[node] >= 0;
    }
    for (int32_t g = 1; g < t->memory->n_groups; g++)
        if (n_windows[g] != t->memory->kv[g].n_kept) return false;
    return n_leaves == t->n_leaves;
}
