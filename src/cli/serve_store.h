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
/* Removes the files of model i, or its section. A file that a section uses stays. */
ft_status ft_store_remove(const ft_serve_list *l, int i, ft_err *err);
/* Adds the section `name`: model i with parameters, a JSON object with Ollama's names; NULL: none.
 */
ft_status ft_store_derive(const ft_serve_list *l, const ft_opts *o, int i, const char *name,
                          const char *params, ft_err *err);

#endif
