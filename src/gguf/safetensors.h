/* gguf/safetensors.h - a checked, read-only view of a safetensors checkpoint: one file, or the
 * shards that an index names. Owns the mappings; everything it returns is borrowed until close. */
#ifndef FT_SAFETENSORS_H
#define FT_SAFETENSORS_H

#include "base/err.h"
#include "base/str.h"

typedef enum ft_st_type {
    FT_ST_F32,
    FT_ST_F16,
    FT_ST_BF16,
    FT_ST_F8_E4M3,
    FT_ST_I64,
    FT_ST_OTHER
} ft_st_type;

typedef struct ft_st_tensor {
    ft_str name; /* also zero-terminated */
    ft_st_type type;
    char type_name[12]; /* as the file spells it */
    int n_dims;         /* 0..8 */
    int64_t shape[8];   /* slowest dimension first, as in the file */
    int64_t count;      /* number of values */
    const void *data;
    size_t bytes;
} ft_st_tensor;

typedef struct ft_st ft_st;

/* path: a .safetensors file, an index (.json), or a folder that holds either. */
ft_status ft_st_open(ft_st **out, const char *path, ft_err *err);
ft_status ft_st_open_memory(ft_st **out, const void *p, size_t n, ft_err *err); /* one file */
void ft_st_close(ft_st *s);

size_t ft_st_n_tensor(const ft_st *s);
const ft_st_tensor *ft_st_tensor_at(const ft_st *s, size_t i);
const ft_st_tensor *ft_st_tensor_find(const ft_st *s, const char *name);

/* Values [first, first + n) as f32. FT_ST_OTHER cannot be read. */
void ft_st_read_f32(const ft_st_tensor *t, int64_t first, int64_t n, float *out);

#endif
