/* SPDX-License-Identifier: MIT */
/* src/serve/keys.c -- who may come in. A key has a number for life, which names it to the batcher and to the store of
 * responses; whoever is in stays in when the list is replaced. */
#include "serve/exchange.h"
#include <stdlib.h>
#include <string.h>

typedef struct key {
    char *secret, *name;
    int id;
} key;

struct keys {
    int n;
    key item[];
};

static void release(keys *k)
{
    for (int i = 0; k && i < k->n; i++) {
        free(k->item[i].secret);
        free(k->item[i].name);
    }
    free(k);
}

void keys_deinit(server *s) { release(s->keys); }

static int id_of(server *s, const char *secret)
{
    for (int i = 0; s->keys && i < s->keys->n; i++)
        if (strcmp(s->keys->item[i].secret, secret) == 0) return s->keys->item[i].id;
    return s->n_key_ids++;
}

bool keys_set(server *s, const serve_key *list, int n)
{
    keys *k = calloc(1, sizeof(*k) + (size_t)n * sizeof(*k->item));
    bool good = k != NULL;
    pthread_mutex_lock(&s->keys_lock);
    for (int i = 0; good && i < n; i++) {
        key *to = &k->item[k->n++];
        to->secret = strdup(list[i].secret);
        to->name = strdup(list[i].name ? list[i].name : "");
        to->id = id_of(s, list[i].secret);
        good = to->secret && to->name;
    }
    keys *before = s->keys;
    if (good) s->keys = k;
    pthread_mutex_unlock(&s->keys_lock);
    release(good ? before : k);
    return good;
}

/* In a time that tells nothing but the length. */
static bool same_secret(const char *a, const char *b)
{
    const size_t n = strlen(a), n_b = strlen(b);
    unsigned differ = n != n_b;
    for (size_t i = 0; i < n_b; i++) differ |= (unsigned char)(a[i < n ? i : n] ^ b[i]);
    return !differ;
}

bool keys_find(server *s, const char *given, char id[KEY_ID], char name[KEY_NAME])
{
    const key *found = NULL;
    pthread_mutex_lock(&s->keys_lock);
    for (int i = 0; given && s->keys && i < s->keys->n; i++)
        if (same_secret(s->keys->item[i].secret, given)) found = &s->keys->item[i];
    if (found) {
        snprintf(id, KEY_ID, "%d", found->id);
        snprintf(name, KEY_NAME, "%.*s", KEY_NAME - 1, found->name);
    }
    pthread_mutex_unlock(&s->keys_lock);
    return found != NULL;
}
