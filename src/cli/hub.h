/* cli/hub.h - models by name: USER/NAME[:QUANT] on a host that speaks Hugging Face's HTTP API, and
 * the copies kept here. A copy lies in CACHE/USER--NAME/FILE; beside it FILE.sha256 with the sum it
 * was checked against. A file that is still on its way is FILE.part and is gone on with next time.
 *
 * The host is HF_ENDPOINT (default https://huggingface.co), the key HF_TOKEN, the cache FT_MODELS,
 * else XDG_CACHE_HOME/foretoken, else ~/.cache/foretoken. */
#ifndef FT_CLI_HUB_H
#define FT_CLI_HUB_H

#include "base/err.h"

typedef struct ft_hub_name {
    char repo[200]; /* USER/NAME */
    char quant[64]; /* "" : whichever is best */
    char file[256]; /* "" : found by quant */
} ft_hub_name;

ft_status ft_hub_parse(ft_hub_name *out, const char *text, const char *file, ft_err *err);
/* The path of the model's (first) file, fetched unless it is here already; yours (ft_free).
 * offline: copies that are here and nothing else. */
ft_status ft_hub_take(const ft_hub_name *name, bool offline, bool quiet, char **path, ft_err *err);
/* Where copies lie; yours (ft_free). */
ft_status ft_hub_folder(char **out, ft_err *err);
/* Calls each(user, "USER/NAME", "FILE", bytes, whole) for every copy. */
ft_status ft_hub_each(void (*each)(void *user, const char *repo, const char *file, uint64_t bytes,
                                   bool whole),
                      void *user, ft_err *err);

/* ---- of hub_get.c ---- */

/* The bytes at url, at most max; yours (ft_free), with a zero behind. */
ft_status ft_hub_get(const char *url, size_t max, char **out, size_t *n, ft_err *err);
/* Brings url to path (through path.part), which must come to `bytes` bytes and, where sha256 is not
 * empty, to that sum. */
ft_status ft_hub_fetch(const char *url, const char *path, uint64_t bytes, const char *sha256,
                       bool quiet, ft_err *err);

/* ---- of hub.c, for tests ---- */

/* Of a listing's GGUF files, the index of the one that is meant, or -1 with a sentence. */
int ft_hub_choose(const char *const *path, int n, const char *quant, ft_err *err);

#endif
