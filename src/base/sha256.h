/* base/sha256.h - SHA-256, used to verify downloaded files. */
#ifndef FT_BASE_SHA256_H
#define FT_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct ft_sha256 {
    uint32_t h[8];
    uint64_t bytes;
    unsigned char block[64];
} ft_sha256;

void ft_sha256_init(ft_sha256 *s);
void ft_sha256_add(ft_sha256 *s, const void *p, size_t n);
void ft_sha256_hex(ft_sha256 *s, char out[65]); /* finishes the hash */

#endif
