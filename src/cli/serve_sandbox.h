/* cli/serve_sandbox.h - the rights that a server keeps, worked out from its options. */
#ifndef FT_CLI_SERVE_SANDBOX_H
#define FT_CLI_SERVE_SANDBOX_H

#include "cli/serve_models.h"

/* Makes the folders that the server will write to and gives up every other right to write, to run
 * programs and, unless models are fetched by name, to connect. Before the first thread is started.
 * Fails when the kernel knows how but refuses. */
ft_status ft_serve_sandbox(const ft_opts *o, const ft_serve_list *l, ft_err *err);

#endif
