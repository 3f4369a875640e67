/* cli/hub.h - models by name: USER/NAME[:QUANT] on a host with Hugging Face's HTTP API, and local
 * copies. A copy is CACHE/USER--NAME/FILE, with FILE.sha256 for the sum it was checked against. An
 * incomplete download is FILE.part and is resumed the next time.
 *
 * A file from another address is CACHE/HOST--url/FILE. The host of names is HF_ENDPOINT (default
 * https://huggingface.co), the cache FT_MODELS, else XDG_CACHE_HOME/foretoken, else
 * ~/.cache/foretoken. */
#ifndef FT_CLI_HUB_H
#define FT_CLI_HUB_H

#include "base/err.h"

typedef struct ft_hub_name {
    char repo[200]; /* USER/NAME */
    char quant[64]; /* "": choose one */
    char file[256]; /* "": chosen by quant */
} ft_hub_name;

ft_status ft_hub_parse(ft_hub_name *out, const char *text, const char *file, ft_err *err);
/* The path of the model's (first) file, downloaded unless there is a local copy; yours (ft_free).
 * offline: use local copies only. mmproj: NULL, or the same for a vision tower of the repository,
 * if there is one, else *mmproj stays; that it cannot be downloaded is a warning. */
ft_status ft_hub_take(const ft_hub_name *name, bool offline, bool quiet, char **path, char **mmproj,
                      ft_err *err);
/* The same for the file at an address. */
ft_status ft_hub_take_url(const char *url, bool offline, bool quiet, char **path, ft_err *err);
/* The access token that is sent to HF_ENDPOINT; borrowed; NULL: none. */
void ft_hub_set_token(const char *token);
/* Reports the downloads of this thread: the file, its SHA-256 ("": not known) and bytes. fn returns
 * false to end one. NULL: no reports. */
typedef bool ft_hub_watch_fn(void *user, const char *file, const char *sha256, uint64_t got,
                             uint64_t total);
void ft_hub_watch(ft_hub_watch_fn *fn, void *user);
/* The folder of local copies; yours (ft_free). */
ft_status ft_hub_folder(char **out, ft_err *err);
/* Calls each(user, "USER/NAME", "FILE", bytes, whole) for every copy. */
ft_status ft_hub_each(void (*each)(void *user, const char *repo, const char *file, uint64_t bytes,
                                   bool whole),
                      void *user, ft_err *err);

/* ---- of hub_get.c ---- */

/* token: sent to the host of the url only, not to redirections; NULL: none. */
typedef struct ft_hub_url {
    const char *url, *token;
} ft_hub_url;

/* The number of bytes of the file at url. */
ft_status ft_hub_size(ft_hub_url url, uint64_t *bytes, ft_err *err);
/* The bytes at url, at most max; yours (ft_free), followed by a zero byte. */
ft_status ft_hub_get(ft_hub_url url, size_t max, char **out, size_t *n, ft_err *err);
/* Downloads url to path (through path.part). The file must have `bytes` bytes and, if sha256 is not
 * empty, this sum. */
ft_status ft_hub_fetch(ft_hub_url url, const char *path, uint64_t bytes, const char *sha256,
                       bool quiet, ft_err *err);

/* ---- of hub.c, for tests ---- */

/* The index of the GGUF file of a listing that is meant, or -1 with an error message. */
int ft_hub_choose(const char *const *path, int n, const char *quant, ft_err *err);
/* The same for the vision tower; -1: there is none. */
int ft_hub_choose_mmproj(const char *const *path, int n);

#endif
