/* fuzz/prefix.c - arbitrary bytes as a file of the prefix cache: it is rejected, or it is complete.
 */
#include "base/mem.h"
#include "kv/prefix_file.h"

#include <string.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const ft_point_shape shape[] = {
        {.digest = 7,
         .page_rows = 64,
         .cells = 512,
         .page = 8,
         .window_page = 4,
         .rest = 12,
         .window = 100},
        {.digest = 7, .page_rows = 64, .cells = 1 << 30, .page = 1 << 20, .rest = 1 << 20},
    };
    unsigned char *copy = ft_alloc(n + 1);
    memcpy(copy, data, n);
    for (int i = 0; i < 4; i++) {
        ft_point p;
        ft_err err;
        if (!ft_point_parse(&p, copy, n, n, &shape[i % 2], i < 2, &err)) {
            if (p.len <= p.from || p.len > shape[i % 2].cells) __builtin_trap();
            if (i < 2 && p.pages->bytes != ft_point_pages_bytes(&shape[i % 2], p.from, p.len))
                __builtin_trap();
            ft_point_release(&p);
        }
        /* With a valid checksum the checks after it are reached. */
        if (i == 1 && n >= 104 + 64 * 4) {
            const uint64_t zero = 0;
            memcpy(copy + 96, &zero, 8);
            const uint64_t sum = XXH3_64bits_withSeed(copy + 104, 64 * 4, XXH3_64bits(copy, 104));
            memcpy(copy + 96, &sum, 8);
        }
    }
    ft_free(copy);
    return 0;
}
