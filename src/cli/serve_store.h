/* cli/serve_store.h - changes of the store of models that requests ask for: downloads, copies with
 * other parameters, removals. A copy is a section of STORE/models.ini, a preset that is read like
 * --models-preset; it uses the file of its original.
 *
 * Each function leaves the list as it is; ft_serve_list_scan shows the result. */
#ifndef FT_CLI_SERVE_STORE_H
#define FT_CLI_SERVE_STORE_H

#include "cli/serve_models.h"

/* Downloads USER/NAME[:QUANT], also with "hf.co/" before it. progress returns false to end it. */
ft_status ft_store_pull(const ft_opts *o, const char *name,
                        bool (*progress)(void *user, const char *file, const char *sha256,
                                         uint64_t got, uint64_t total),
                        void *user, ft_err *err);
typedef struct ft_removed {
    uint64_t bytes;
    int files; /* 0: a section */
} ft_removed;

/* Removes model i: all its parts, those of a download that was not completed, and the vision tower
 * beside it unless another model is there; or its section. A file that a section uses stays. Adds
 * what was removed to *r. */
ft_status ft_store_remove(const ft_serve_list *l, int i, ft_removed *r, ft_err *err);
/* The number of unfinished downloads (FILE.gguf.part) of a model in the folder and below it. Unless
 * r is NULL they are removed, but for those that a process is writing. */
int ft_store_unfinished(const ft_serve_list *l, const char *folder, const char *name,
                        ft_removed *r);
/* Adds the section `name`: model i with parameters, a JSON object with Ollama's names; NULL: none.
 */
ft_status ft_store_derive(const ft_serve_list *l, const ft_opts *o, int i, const char *name,
                          const char *params, ft_err *err);

#endif
