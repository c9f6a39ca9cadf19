/* SPDX-License-Identifier: MIT */
/* src/serve/access.c -- who may come in: a key where there are any, a Host that is us, and no web page of elsewhere. */
#include "serve/exchange.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---- keys ---- */

/* Of one key, so that others have room: each is counted by those that come behind it. */
static bool check_number(exchange *x, const char id[KEY_ID], const char name[KEY_NAME], problem *p)
{
    server *s = x->server;
    int n = 0;
    pthread_mutex_lock(&s->lock);
    memcpy(x->key, id, sizeof(x->key));
    memcpy(x->key_name, name, sizeof(x->key_name));
    for (const exchange *other = s->exchanges; other; other = other->next) n += strcmp(other->key, x->key) == 0;
    pthread_mutex_unlock(&s->lock);
    return !s->o.requests_per_key || n <= s->o.requests_per_key ||
           problem_set(p, 429, "", "%d requests with this key are under way already (--requests-per-key)", n - 1);
}

static bool check_key(exchange *x, header_fn header, void *ctx, problem *p)
{
    char id[KEY_ID] = "", name[KEY_NAME] = "";
    const char *given = header(ctx, "Authorization");
    if (given && strncasecmp(given, "Bearer ", 7) == 0)
        given += 7;
    else
        given = header(ctx, "x-api-key");
    if (keys_find(x->server, given, id, name)) return check_number(x, id, name, p);
    snprintf(p->code, sizeof(p->code), "invalid_api_key");
    return problem_set(p, 401, "",
                       given ? "that is none of this server's keys" : "a key is needed: Authorization: Bearer KEY");
}

/* ---- names ---- */

/* "name", "name:80", "[::1]:80" without the port. */
static void host_name(const char *host, char *name, size_t size)
{
    const char *begin = host, *end;
    if (*host == '[') {
        begin++;
        end = strchr(begin, ']');
        if (!end) end = begin + strlen(begin);
    } else {
        end = begin + strcspn(begin, ":");
    }
    size_t n = (size_t)(end - begin);
    if (n && begin[n - 1] == '.') n--; /* of the root */
    snprintf(name, size, "%.*s", (int)n, begin);
}

static bool is_local(const char *name)
{
    unsigned char v4[4], v6[16];
    static const unsigned char one[16] = {[15] = 1};
    if (strcasecmp(name, "localhost") == 0) return true;
    if (inet_pton(AF_INET, name, v4) == 1) return v4[0] == 127;
    return inet_pton(AF_INET6, name, v6) == 1 && memcmp(v6, one, sizeof(one)) == 0;
}

static bool is_number(const char *name)
{
    unsigned char address[16];
    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

static bool is_ours(const server *s, const char *name)
{
    char own[256] = "";
    if (is_local(name) || (s->o.host && strcasecmp(name, s->o.host) == 0)) return true;
    for (int i = 0; i < s->o.n_allow_hosts; i++)
        if (strcmp(s->o.allow_hosts[i], "*") == 0 || strcasecmp(s->o.allow_hosts[i], name) == 0) return true;
    /* Names can be made to lead to us by anybody who has a domain, numbers cannot. */
    if (s->local) return false;
    return is_number(name) || (gethostname(own, sizeof(own) - 1) == 0 && strcasecmp(own, name) == 0);
}

static bool check_host(const server *s, header_fn header, void *ctx, problem *p)
{
    char name[256];
    const char *host = header(ctx, "Host");
    if (!host || !*host) return problem_set(p, 400, "", "a request without Host");
    host_name(host, name, sizeof(name));
    if (is_ours(s, name)) return true;
    return problem_set(p, 403, "", "Host is \"%.80s\", which is not this server (--allow-host %.80s would let it in)",
                       name, name);
}

static bool check_origin(const server *s, header_fn header, void *ctx, char *cors, size_t size, problem *p)
{
    char name[256];
    const char *origin = header(ctx, "Origin"), *host = header(ctx, "Host"), *at;
    if (!origin) return true;
    bool good = false;
    for (int i = 0; i < s->o.n_origins; i++)
        good = good || strcmp(s->o.origins[i], "*") == 0 || strcasecmp(s->o.origins[i], origin) == 0;
    if (!good && (at = strstr(origin, "://"))) {
        host_name(at + 3, name, sizeof(name));
        good = is_local(name) || (host && strcasecmp(at + 3, host) == 0);
    }
    if (!good)
        return problem_set(p, 403, "", "a web page of \"%.120s\" may not use this server (--cors-origins)", origin);
    if (strlen(origin) < size) snprintf(cors, size, "%s", origin);
    return true;
}

bool access_check(exchange *x, const route *r, header_fn header, void *ctx, problem *p)
{
    server *s = x->server;
    if (!check_host(s, header, ctx, p) || !check_origin(s, header, ctx, x->cors, sizeof(x->cors), p)) return false;
    if (r->open || !s->o.n_keys) return true;
    return check_key(x, header, ctx, p);
}
