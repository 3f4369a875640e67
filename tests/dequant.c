/* dequant DIR: for every pair TYPE.blocks and TYPE.f32 in DIR, the blocks must decode to exactly
 * those floats, bit for bit (any NaN equals any NaN). TYPE is a type's name, in any case. */
#define _POSIX_C_SOURCE 200809L
#include "base/file.h"
#include "base/half.h"
#include "base/mem.h"
#include "quant/quant.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 30 };

static ft_status read_pair(const char *dir, ft_str stem, const char *suffix, char **out, size_t *n,
                           ft_err *err)
{
    char path[4096];
    const int len = snprintf(path, sizeof path, "%s/%.*s.%s", dir, FT_STR_FMT(stem), suffix);
    if (len < 0 || (size_t)len >= sizeof path)
        return ft_fail(err, FT_ELIMIT, "the path of a file in %s is too long", dir);
    return ft_file_read(out, n, path, FILE_MAX, err);
}

static ft_status compare(ft_type t, const char *blocks, size_t n_blocks, const char *want,
                         size_t n_want, ft_err *err)
{
    const ft_type_info *info = ft_type_of(t);
    if (n_blocks == 0 || n_blocks % info->bytes)
        return ft_fail(err, FT_EFORMAT, "%zu bytes of blocks, want a multiple of %d", n_blocks,
                       info->bytes);
    const size_t n = n_blocks / info->bytes * info->elems;
    if (n_want != n * sizeof(float))
        return ft_fail(err, FT_EFORMAT, "%zu bytes of floats, want %zu for %zu bytes of blocks",
                       n_want, n * sizeof(float), n_blocks);
    float *got = ft_new_n(float, n);
    ft_row_decode(t, got, blocks, n);
    ft_status st = FT_OK;
    for (size_t i = 0; i < n && !st; i++) {
        float w;
        memcpy(&w, want + i * sizeof w, sizeof w);
        if (ft_f32_bits(got[i]) == ft_f32_bits(w) || (isnan(got[i]) && isnan(w))) continue;
        st = ft_fail(err, FT_EFORMAT, "value %zu is %.9g (%08x), want %.9g (%08x)", i,
                     (double)got[i], ft_f32_bits(got[i]), (double)w, ft_f32_bits(w));
    }
    ft_free(got);
    return st;
}

static ft_status check(const char *dir, ft_str stem, ft_err *err)
{
    ft_type t;
    char *blocks = NULL, *want = NULL;
    size_t n_blocks = 0, n_want = 0;
    if (!ft_type_find(stem, &t)) return ft_fail(err, FT_EUNSUPPORTED, "unknown tensor type");
    ft_status st = read_pair(dir, stem, "blocks", &blocks, &n_blocks, err);
    if (!st) st = read_pair(dir, stem, "f32", &want, &n_want, err);
    if (!st) st = compare(t, blocks, n_blocks, want, n_want, err);
    ft_free(blocks);
    ft_free(want);
    return st;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "dequant: %d arguments, want one folder of TYPE.blocks and TYPE.f32\n",
                argc - 1);
        return 1;
    }
    struct dirent **entry = NULL;
    const int n = scandir(argv[1], &entry, NULL, alphasort);
    if (n < 0) {
        fprintf(stderr, "dequant: cannot read the folder %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    int passed = 0, failed = 0;
    for (int i = 0; i < n; i++) {
        const ft_str name = ft_str_of(entry[i]->d_name), suffix = FT_STR(".blocks");
        if (ft_str_ends(name, suffix)) {
            const ft_str stem = {name.p, name.n - suffix.n};
            ft_err err = {0};
            const bool ok = check(argv[1], stem, &err) == FT_OK;
            printf("%s %.*s%s%s\n", ok ? "ok  " : "FAIL", FT_STR_FMT(stem), ok ? "" : ": ",
                   err.text);
            passed += ok;
            failed += !ok;
        }
        free(entry[i]);
    }
    free(entry);
    if (passed + failed == 0) {
        fprintf(stderr, "dequant: the folder %s contains no TYPE.blocks\n", argv[1]);
        return 1;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
