/* fuzz/replay.c - runs a fuzz target over the files of its corpus as a regression test, without a
 * fuzzing engine. usage: replay-TARGET FOLDER */
#define _POSIX_C_SOURCE 200809L
#include "base/file.h"
#include "base/mem.h"

#include <dirent.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int main(int argc, char **argv)
{
    DIR *d = argc > 1 ? opendir(argv[1]) : NULL;
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], e->d_name);
        char *data;
        size_t bytes;
        ft_err err;
        if (ft_file_read(&data, &bytes, path, (size_t)64 << 20, &err)) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        LLVMFuzzerTestOneInput((const uint8_t *)data, bytes);
        ft_free(data);
        n++;
    }
    if (d) closedir(d);
    printf("%d passed, 0 failed\n", n > 0 ? 1 : 0);
    return n > 0 ? 0 : 1;
}
