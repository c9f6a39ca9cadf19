/* SPDX-License-Identifier: MIT */
/* src/serve/tls.c -- certificates. libmicrohttpd asks for the one to show when a client says hello, so that a new one
 * counts from the next connection on. One that was replaced stays until nobody can be in the middle of a hello with it:
 * until every connection that is older than its end has sent a request, or is gone. */
#include "serve/tls.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef QN_GNUTLS
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>

enum { CHAIN = 16 };

typedef struct certificate certificate;
struct certificate {
    certificate *next;
    gnutls_pcert_st chain[CHAIN];
    unsigned n;
    gnutls_privkey_t key;
    uint64_t retired; /* the last connection that may have been shown it */
};

/* libmicrohttpd passes nothing of ours on: of the process. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static certificate *now, *old;

static void release(certificate *c)
{
    if (!c) return;
    for (unsigned i = 0; i < c->n; i++) gnutls_pcert_deinit(&c->chain[i]);
    if (c->key) gnutls_privkey_deinit(c->key);
    free(c);
}

static bool wrong(qn_error *err, const char *file, const char *why)
{
    err->status = QN_STATUS_io;
    snprintf(err->text, sizeof(err->text), "%.200s: %s", file, why);
    return false;
}

/* The key is of the first certificate. */
static bool belong(const certificate *c, const serve_options *o, qn_error *err)
{
    unsigned char a[64], b[64];
    size_t n_a = sizeof(a), n_b = sizeof(b);
    gnutls_pubkey_t of_key = NULL;
    int rc = gnutls_pubkey_init(&of_key);
    if (rc >= 0) rc = gnutls_pubkey_import_privkey(of_key, c->key, 0, 0);
    if (rc >= 0) rc = gnutls_pubkey_get_key_id(of_key, 0, a, &n_a);
    if (rc >= 0) rc = gnutls_pubkey_get_key_id(c->chain[0].pubkey, 0, b, &n_b);
    gnutls_pubkey_deinit(of_key);
    if (rc < 0) return wrong(err, o->tls_key, gnutls_strerror(rc));
    return (n_a == n_b && memcmp(a, b, n_a) == 0) || wrong(err, o->tls_key, "is the key of another certificate");
}

static bool read_key(certificate *c, const char *file, qn_error *err)
{
    gnutls_datum_t data = {0};
    int rc = gnutls_load_file(file, &data);
    if (rc < 0) return wrong(err, file, errno ? strerror(errno) : gnutls_strerror(rc));
    rc = gnutls_privkey_init(&c->key);
    if (rc >= 0) rc = gnutls_privkey_import_x509_raw(c->key, &data, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (data.data) gnutls_memset(data.data, 0, data.size);
    gnutls_free(data.data);
    return rc >= 0 || wrong(err, file, gnutls_strerror(rc));
}

static bool read_chain(certificate *c, const char *file, qn_error *err)
{
    gnutls_datum_t data = {0};
    unsigned n = CHAIN;
    int rc = gnutls_load_file(file, &data);
    if (rc < 0) return wrong(err, file, errno ? strerror(errno) : gnutls_strerror(rc));
    rc = gnutls_pcert_list_import_x509_raw(c->chain, &n, &data, GNUTLS_X509_FMT_PEM, 0);
    gnutls_free(data.data);
    if (rc >= 0) c->n = n;
    return (rc >= 0 && n) || wrong(err, file, rc >= 0 ? "no certificate in it" : gnutls_strerror(rc));
}

bool tls_read(server *s, qn_error *err)
{
    const serve_options *o = &s->o;
    certificate *c = calloc(1, sizeof(*c));
    if (!c) return wrong(err, o->tls_cert, "out of memory");
    errno = 0;
    if (!read_chain(c, o->tls_cert, err) || !read_key(c, o->tls_key, err) || !belong(c, o, err)) {
        release(c);
        return false;
    }
    pthread_mutex_lock(&lock);
    certificate *before = now;
    if (before) {
        before->retired = UINT64_MAX; /* until we know */
        before->next = old;
        old = before;
    }
    now = c;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&s->lock);
    const uint64_t last = s->last_peer; /* who comes from here on is shown the new one */
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&lock);
    if (before) before->retired = last;
    pthread_mutex_unlock(&lock);
    return true;
}

void tls_drop_old(server *s)
{
    pthread_mutex_lock(&lock);
    const bool any = old != NULL;
    pthread_mutex_unlock(&lock);
    if (!any) return;
    pthread_mutex_lock(&s->lock);
    uint64_t oldest = s->last_peer + 1; /* connection that has sent nothing yet, or the next one that comes */
    for (const peer *p = s->peers; p; p = p->next)
        if (!p->greeted && p->id < oldest) oldest = p->id;
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&lock);
    certificate **at = &old;
    while (*at && (*at)->retired >= oldest) at = &(*at)->next;
    certificate *rest = *at; /* the newer come first */
    *at = NULL;
    pthread_mutex_unlock(&lock);
    while (rest) {
        certificate *next = rest->next;
        release(rest);
        rest = next;
    }
}

void tls_deinit(void)
{
    release(now);
    now = NULL;
    while (old) {
        certificate *next = old->next;
        release(old);
        old = next;
    }
}

static int show(gnutls_session_t session, const gnutls_datum_t *names, int n_names, const gnutls_pk_algorithm_t *kinds,
                int n_kinds, gnutls_pcert_st **chain, unsigned *n, gnutls_privkey_t *key)
{
    (void)session, (void)names, (void)n_names, (void)kinds, (void)n_kinds;
    pthread_mutex_lock(&lock);
    *chain = now->chain;
    *n = now->n;
    *key = now->key;
    pthread_mutex_unlock(&lock);
    return 0;
}

void *tls_callback(void) { return (void *)show; }

bool tls_can(void) { return MHD_is_feature_supported(MHD_FEATURE_SSL) == MHD_YES; }

#else

bool tls_read(server *s, qn_error *err)
{
    (void)s;
    *err = (qn_error){.status = QN_STATUS_unsupported, .text = "this quern was built without GnuTLS, which TLS needs"};
    return false;
}
void tls_drop_old(server *s) { (void)s; }
void tls_deinit(void) {}
void *tls_callback(void) { return NULL; }
bool tls_can(void) { return false; }

#endif
