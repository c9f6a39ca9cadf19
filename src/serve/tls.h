/* SPDX-License-Identifier: MIT */
/* src/serve/tls.h -- the certificate that clients are shown. */
#ifndef QN_SERVE_TLS_H
#define QN_SERVE_TLS_H

#include "serve/exchange.h"

/* Reads certificate and key of the options; on failure those before stay. */
bool tls_read(server *s, qn_error *err);
/* Frees what was replaced and is used no more. */
void tls_drop_old(server *s);
void tls_deinit(void);
/* For MHD_OPTION_HTTPS_CERT_CALLBACK. */
void *tls_callback(void);
bool tls_can(void);

#endif
