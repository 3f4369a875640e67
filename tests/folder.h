/* tests/folder.h - creates and removes a temporary folder for a test. Needs _XOPEN_SOURCE 700. */
#ifndef FT_TESTS_FOLDER_H
#define FT_TESTS_FOLDER_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "/tmp/foretoken-test-XXXXXX"

/* Creates the folder; exits when that fails. */
static inline void folder_new(char path[static sizeof FOLDER])
{
    memcpy(path, FOLDER, sizeof FOLDER);
    if (mkdtemp(path)) return;
    perror(path);
    exit(1);
}

static inline int folder_drop(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

/* Removes the folder and its contents; 0 on success. */
static inline int folder_free(const char *path)
{
    return nftw(path, folder_drop, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
