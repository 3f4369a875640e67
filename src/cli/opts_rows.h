/* cli/opts_rows.h - the families of option rows, each in a file of its own. */
#ifndef FT_CLI_OPTS_ROWS_H
#define FT_CLI_OPTS_ROWS_H

#include "base/err.h"
#include "base/mem.h"
#include "base/params.h"

extern const ft_param ft_opts_model[], ft_opts_draft[], ft_opts_serve[], ft_opts_compat[],
    ft_opts_programs[];
extern const int ft_n_opts_model, ft_n_opts_draft, ft_n_opts_serve, ft_n_opts_compat,
    ft_n_opts_programs;

#endif
