/* SPDX-License-Identifier: MIT */
/* src/cli/client.c -- one request a connection, HTTP/1.0 in substance: the reply ends with the connection. */
#include "cli/client.h"
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#ifdef QN_GNUTLS
#include <gnutls/gnutls.h>
#endif

enum { TIMEOUT_S = 30, MOST_BYTES = 16 << 20 };

/* ---- addresses ---- */

typedef struct address {
    char host[256], port[16];
    bool tls, six;
} address;

/* "host", "host:80", "[::1]:80", each with or without "http://" or "https://" before it and "/" behind it. */
static bool parse_address(const char *text, address *a)
{
    const char *end, *colon;
    *a = (address){0};
    if (strncasecmp(text, "http://", 7) == 0) {
        text += 7;
    } else if (strncasecmp(text, "https://", 8) == 0) {
        text += 8;
        a->tls = true;
    }
    a->six = *text == '[';
    end = a->six ? strchr(++text, ']') : text + strcspn(text, ":/");
    if (!end || end == text || (size_t)(end - text) >= sizeof(a->host)) return false;
    memcpy(a->host, text, (size_t)(end - text));
    const char *known =
        a->six ? "0123456789abcdefABCDEF:.%" : "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    if (a->host[strspn(a->host, known)]) return false;
    colon = end + a->six;
    snprintf(a->port, sizeof(a->port), "%s", a->tls ? "443" : "8080");
    if (*colon != ':') return !*colon || strcmp(colon, "/") == 0;
    const size_t n = strspn(colon + 1, "0123456789");
    if (!n || n >= sizeof(a->port) || (colon[1 + n] && strcmp(colon + 1 + n, "/") != 0)) return false;
    snprintf(a->port, sizeof(a->port), "%.*s", (int)n, colon + 1);
    return true;
}

static const char *url(const address *a, char *buf, size_t size)
{
    snprintf(buf, size, "%s://%s%s%s:%s", a->tls ? "https" : "http", a->six ? "[" : "", a->host, a->six ? "]" : "",
             a->port);
    return buf;
}

/* ---- connections ---- */

typedef struct wire {
    int fd;
    char why[256];
#ifdef QN_GNUTLS
    gnutls_session_t tls;
    gnutls_certificate_credentials_t trust;
#endif
    bool secure;
} wire;

static bool dial(wire *w, const address *a)
{
    struct addrinfo *list = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const struct timeval patience = {.tv_sec = TIMEOUT_S};
    const int rc = getaddrinfo(a->host, a->port, &hints, &list);
    w->fd = -1;
    if (rc != 0) {
        snprintf(w->why, sizeof(w->why), "%s", gai_strerror(rc));
        return false;
    }
    for (const struct addrinfo *i = list; i && w->fd < 0; i = i->ai_next) {
        w->fd = socket(i->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (w->fd < 0) continue;
        setsockopt(w->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        setsockopt(w->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        if (connect(w->fd, i->ai_addr, i->ai_addrlen) == 0) break;
        snprintf(w->why, sizeof(w->why), "%s", strerror(errno));
        close(w->fd);
        w->fd = -1;
    }
    freeaddrinfo(list);
    return w->fd >= 0;
}

#ifdef QN_GNUTLS
static bool secure(wire *w, const address *a, const char *cacert)
{
    int rc = gnutls_certificate_allocate_credentials(&w->trust);
    if (rc == 0 && !cacert) rc = gnutls_certificate_set_x509_system_trust(w->trust);
    if (rc >= 0 && cacert) rc = gnutls_certificate_set_x509_trust_file(w->trust, cacert, GNUTLS_X509_FMT_PEM);
    if (rc >= 0) rc = gnutls_init(&w->tls, GNUTLS_CLIENT);
    if (rc >= 0) rc = gnutls_set_default_priority(w->tls);
    if (rc >= 0) rc = gnutls_credentials_set(w->tls, GNUTLS_CRD_CERTIFICATE, w->trust);
    if (rc >= 0) rc = gnutls_server_name_set(w->tls, GNUTLS_NAME_DNS, a->host, strlen(a->host));
    if (rc >= 0) {
        gnutls_session_set_verify_cert(w->tls, a->host, 0);
        gnutls_transport_set_int(w->tls, w->fd);
        do rc = gnutls_handshake(w->tls);
        while (rc < 0 && !gnutls_error_is_fatal(rc) && rc != GNUTLS_E_AGAIN);
    }
    w->secure = true;
    if (rc < 0) snprintf(w->why, sizeof(w->why), "%s", gnutls_strerror(rc));
    return rc >= 0;
}
#else
static bool secure(wire *w, const address *a, const char *cacert)
{
    (void)a, (void)cacert;
    snprintf(w->why, sizeof(w->why), "this quern was built without GnuTLS, which https needs");
    return false;
}
#endif

static ssize_t put(wire *w, const char *data, size_t n)
{
#ifdef QN_GNUTLS
    if (w->secure) return gnutls_record_send(w->tls, data, n);
#endif
    return send(w->fd, data, n, MSG_NOSIGNAL);
}

static ssize_t get(wire *w, char *data, size_t n)
{
#ifdef QN_GNUTLS
    if (w->secure) {
        const ssize_t got = gnutls_record_recv(w->tls, data, n);
        return got == GNUTLS_E_PREMATURE_TERMINATION ? 0 : got;
    }
#endif
    return recv(w->fd, data, n, 0);
}

static void hang_up(wire *w)
{
#ifdef QN_GNUTLS
    if (w->tls) gnutls_deinit(w->tls);
    if (w->trust) gnutls_certificate_free_credentials(w->trust);
#endif
    if (w->fd >= 0) close(w->fd);
}

/* ---- requests ---- */

static bool send_all(wire *w, const char *data, size_t n)
{
    for (size_t at = 0; at < n;) {
        const ssize_t k = put(w, data + at, n - at);
        if (k < 0 && errno == EINTR && !cli_interrupted()) continue;
        if (k <= 0) return false;
        at += (size_t)k;
    }
    return true;
}

/* Until the server closes. Terminated; freed with free. */
static char *receive_all(wire *w)
{
    size_t n = 0, cap = 1 << 16;
    char *data = malloc(cap + 1);
    for (;;) {
        const ssize_t k = data && n < MOST_BYTES ? get(w, data + n, cap - n) : -1;
        if (k < 0 && data && errno == EINTR && !cli_interrupted()) continue;
        if (k < 0) {
            snprintf(w->why, sizeof(w->why), "%s", errno == EAGAIN ? "it does not answer" : strerror(errno));
            free(data);
            return NULL;
        }
        n += (size_t)k;
        data[n] = '\0';
        if (k == 0) return data;
        if (n < cap) continue;
        char *more = realloc(data, (cap *= 2) + 1);
        if (!more) free(data);
        data = more;
    }
}

/* Header and body of a request. Freed with free. */
static char *request_text(const address *a, const char *key, const char *path, json_t *body, size_t *n)
{
    char *json = body ? json_dumps(body, JSON_COMPACT) : NULL, *made = NULL;
    FILE *f = open_memstream(&made, n);
    if (f) {
        fprintf(f, "%s %s HTTP/1.1\r\nHost: %s%s%s:%s\r\nConnection: close\r\n", body ? "POST" : "GET", path,
                a->six ? "[" : "", a->host, a->six ? "]" : "", a->port);
        if (key) fprintf(f, "Authorization: Bearer %s\r\n", key);
        if (json) fprintf(f, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(json));
        fprintf(f, "\r\n%s", json ? json : "");
        fclose(f);
    }
    free(json);
    return made;
}

static int take_reply(const char *data, const address *a, json_t **reply)
{
    char where[300];
    const char *body = strstr(data, "\r\n\r\n");
    const int status = strncmp(data, "HTTP/1.", 7) == 0 && strlen(data) > 12 ? atoi(data + 9) : 0;
    json_t *value = body ? json_loads(body + 4, 0, NULL) : NULL;
    if (status >= 200 && status < 300 && value) {
        *reply = value;
        return CLI_OK;
    }
    const json_t *error = json_object_get(value, "error"), *message = json_object_get(error, "message");
    const char *said = json_string_value(message ? message : error);
    const int failed = said ? cli_fail("%s: %s", url(a, where, sizeof(where)), said)
                            : cli_fail("%s is no server of ours%s%.3s", url(a, where, sizeof(where)),
                                       status ? ": it answers with status " : "", status ? data + 9 : "");
    json_decref(value);
    return failed;
}

static bool is_plain(const char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~') return false;
    return true;
}

int cli_request(const cli_server *s, const char *path, json_t *body, json_t **reply)
{
    const char *own = getenv("QUERN_HOST"), *key = s->key ? s->key : getenv("QUERN_API_KEY");
    const char *host = s->host ? s->host : own && *own ? own : "127.0.0.1:8080";
    char where[300];
    address a;
    size_t n = 0;
    wire w = {.fd = -1};
    if (key && !*key) key = NULL;
    if (!parse_address(host, &a)) {
        json_decref(body);
        return cli_bad_usage(
            "\"%.100s\" is no address of a server; they are like 127.0.0.1:8080 or https://example.org", host);
    }
    if (key && !is_plain(key)) {
        json_decref(body);
        return cli_bad_usage("a key has characters that no key has");
    }
    char *text = request_text(&a, key, path, body, &n);
    json_decref(body);
    if (!text) return cli_no_memory("out of memory");
    const bool sent = dial(&w, &a) && (!a.tls || secure(&w, &a, s->cacert)) && send_all(&w, text, n);
    char *answer = sent ? receive_all(&w) : NULL;
    const int status = answer ? take_reply(answer, &a, reply)
                              : cli_fail("no server answers at %s: %s", url(&a, where, sizeof(where)), w.why);
    hang_up(&w);
    free(answer);
    free(text);
    return status;
}
