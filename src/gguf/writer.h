/* gguf/writer.h - writes a GGUF version 3 file that appears only when it is complete.
 * Call order: keys and tensor descriptions in file order, then _begin, then the data of each
 * tensor, from any thread and in any order, then _commit. The first error is kept and reported by
 * _begin and _commit. */
#ifndef FT_GGUF_WRITER_H
#define FT_GGUF_WRITER_H

#include "gguf/gguf.h"

typedef struct ft_gguf_writer ft_gguf_writer;

ft_status ft_gguf_writer_open(ft_gguf_writer **out, const char *path, ft_err *err);

void ft_gguf_put_u32(ft_gguf_writer *w, const char *key, uint32_t v);
void ft_gguf_put_i32(ft_gguf_writer *w, const char *key, int32_t v);
void ft_gguf_put_f32(ft_gguf_writer *w, const char *key, float v);
void ft_gguf_put_bool(ft_gguf_writer *w, const char *key, bool v);
void ft_gguf_put_str(ft_gguf_writer *w, const char *key, ft_str v);
/* n packed values of a fixed-size kind */
void ft_gguf_put_array(ft_gguf_writer *w, const char *key, ft_gguf_kind kind, const void *v,
                       uint64_t n);
void ft_gguf_put_str_array(ft_gguf_writer *w, const char *key, const ft_str *v, uint64_t n);
/* Copies a key of another file. Keys that describe that file rather than the model
 * (general.alignment, split.*) are skipped. */
void ft_gguf_put_kv(ft_gguf_writer *w, const ft_gguf_kv *kv);
bool ft_gguf_has(const ft_gguf_writer *w, const char *key);

/* Describes the next tensor and returns its index. n[] beyond n_dims is ignored. */
size_t ft_gguf_put_tensor(ft_gguf_writer *w, const char *name, ft_type t, int n_dims,
                          const int64_t *n);

/* Writes the header and reserves the data section. No keys or tensors after this. */
ft_status ft_gguf_writer_begin(ft_gguf_writer *w, ft_err *err);
size_t ft_gguf_writer_tensor_bytes(const ft_gguf_writer *w, size_t tensor);
uint64_t ft_gguf_writer_file_bytes(const ft_gguf_writer *w); /* final size, after _begin */
void ft_gguf_writer_data(ft_gguf_writer *w, size_t tensor, size_t offset, const void *p, size_t n);
/* Frees the writer, also on failure. */
ft_status ft_gguf_writer_commit(ft_gguf_writer *w, ft_err *err);
void ft_gguf_writer_abort(ft_gguf_writer *w); /* accepts NULL */

#endif
