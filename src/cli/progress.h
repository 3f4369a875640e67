/* cli/progress.h - draws progress on standard error: on a terminal one line that redraws itself,
 * else a plain line for every tenth. Each function is an ft_progress_fn; user is not used. */
#ifndef FT_CLI_PROGRESS_H
#define FT_CLI_PROGRESS_H

#include <stdint.h>

void ft_bar_count(void *user, const char *what, uint64_t done, uint64_t total);
/* Bytes and bytes per second. Totals under 64 MiB are not drawn. */
void ft_bar_bytes(void *user, const char *what, uint64_t done, uint64_t total);
/* The same for model files: without a terminal only those of 1 GiB and more. */
void ft_bar_load(void *user, const char *what, uint64_t done, uint64_t total);
/* Bytes of any total. */
void ft_bar_download(void *user, const char *what, uint64_t done, uint64_t total);

#endif
