/* SPDX-License-Identifier: MIT */
/* src/cli/chat_history.c -- the history's file: an entry a line, newlines as \n and backslashes as \\. Who writes
 * holds the file's lock, so that several chats at a time lose nothing of each other. The file is for its owner alone.
 */
#include "cli/chat_input.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_ENTRIES = 1000, MOST_BYTES = 1 << 20 };

/* Every folder of the path that is missing, for the owner alone (as the XDG specification has it). */
static bool make_folders(char *path)
{
    for (char *p = path + 1; *p; p++) {
        if (*p != '/') continue;
        *p = '\0';
        const bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *p = '/';
        if (!made) return false;
    }
    return true;
}

bool chat_history_path(char *path, size_t size)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n;
    if (state && *state == '/') /* a relative one is to be ignored */
        n = snprintf(path, size, "%s/quern/chat_history", state);
    else if (home && *home == '/')
        n = snprintf(path, size, "%s/.local/state/quern/chat_history", home);
    else
        return false;
    return n > 0 && (size_t)n < size && make_folders(path);
}

static void decode(char *line)
{
    char *to = line;
    for (const char *p = line; *p; p++) {
        if (*p == '\\' && (p[1] == 'n' || p[1] == '\\'))
            *to++ = *++p == 'n' ? '\n' : '\\';
        else
            *to++ = *p;
    }
    *to = '\0';
}

/* The newest entries, where the file has become long: by way of a temporary one. */
static void shorten(const char *path, const char *from, size_t len)
{
    char temporary[4096 + 16];
    if (snprintf(temporary, sizeof(temporary), "%s.tmp-%ld", path, (long)getpid()) >= (int)sizeof(temporary)) return;
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return;
    const bool wrote = write(fd, from, len) == (ssize_t)len;
    if (close(fd) != 0 || !wrote || rename(temporary, path) != 0) unlink(temporary);
}

/* -1: no such file, or none that may be opened. Closing it gives the lock back. */
static int open_locked(const char *path, int flags)
{
    for (int tries = 0; tries < 8; tries++) {
        struct stat held, there;
        const int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0600);
        if (fd < 0) return -1;
        (void)flock(fd, LOCK_EX); /* a file system without locks is used without */
        if (fstat(fd, &held) == 0 && stat(path, &there) == 0 && held.st_ino == there.st_ino &&
            held.st_dev == there.st_dev)
            return fd;
        close(fd); /* while waiting another chat has put a shorter one in its place */
    }
    return -1;
}

/* The file's end, at most MOST_BYTES of it, from the beginning of a line; freed with free. */
static char *read_end(int fd, size_t *len, bool *cut)
{
    struct stat st;
    char *text = NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        const off_t start = st.st_size > MOST_BYTES ? st.st_size - MOST_BYTES : 0;
        size_t n = 0;
        ssize_t got = 1;
        text = malloc(MOST_BYTES + 1);
        while (text && got > 0 && n < MOST_BYTES) {
            got = pread(fd, text + n, MOST_BYTES - n, start + (off_t)n);
            n += got > 0 ? (size_t)got : 0;
        }
        for (size_t i = 0; text && i < n; i++)
            if (!text[i]) text[i] = ' ';
        if (text) text[n] = '\0';
        char *line = text && start ? memchr(text, '\n', n) : NULL;
        if (line) memmove(text, line + 1, n -= (size_t)(line + 1 - text)), text[n] = '\0';
        *len = n;
        *cut = start > 0;
    }
    return text;
}

void chat_history_load(const char *path, void (*add)(void *ctx, const char *entry), void *ctx)
{
    size_t len = 0, lines = 0;
    bool cut = false;
    const int fd = open_locked(path, O_RDONLY);
    char *text = fd >= 0 ? read_end(fd, &len, &cut) : NULL;
    for (size_t i = 0; i < len; i++) lines += text[i] == '\n';
    char *p = text;
    for (; lines > MOST_ENTRIES; lines--) p = strchr(p, '\n') + 1, cut = true;
    if (cut) shorten(path, p, len - (size_t)(p - text));
    if (fd >= 0) close(fd);
    for (char *end; p && (end = strchr(p, '\n')); p = end + 1) {
        *end = '\0';
        decode(p);
        if (*p) add(ctx, p);
    }
    free(text);
}

void chat_history_append(const char *path, const char *entry)
{
    char *line = malloc(2 * strlen(entry) + 3), *to = line;
    if (!line) return;
    *to++ = '\n';
    for (const char *p = entry; *p; p++) {
        if (*p == '\n' || *p == '\\') *to++ = '\\';
        *to++ = *p == '\n' ? 'n' : *p;
    }
    *to++ = '\n';
    const int fd = open_locked(path, O_RDWR | O_CREAT | O_APPEND);
    if (fd >= 0) {
        char last = '\n';
        const off_t size = lseek(fd, 0, SEEK_END);
        const bool whole = size <= 0 || (pread(fd, &last, 1, size - 1) == 1 && last == '\n');
        /* one that was cut within an entry gets its end of line first */
        (void)!write(fd, line + whole, (size_t)(to - line) - whole);
        close(fd);
    }
    free(line);
}
