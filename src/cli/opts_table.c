/* cli/opts_table.c - all options: the families of rows as one list. A new option is a row in one of
 * the files named here; nothing else lists options.
 *
 * Apart from the variables in these rows the environment is read for the model cache (cli/hub.h),
 * the terminal (TERM, COLUMNS) and three debug switches: FT_CPU, FT_VULKAN and FT_LOG. */
#include "cli/opts.h"
#include "cli/opts_rows.h"

const ft_param *ft_opt_row(int i)
{
    const struct {
        const ft_param *row;
        int n;
    } family[] = {
        {ft_opts_model, ft_n_opts_model},     {ft_opts_draft, ft_n_opts_draft},
        {ft_request_params, FT_REQUEST_ROWS}, {ft_opts_serve, ft_n_opts_serve},
        {ft_opts_compat, ft_n_opts_compat},   {ft_opts_programs, ft_n_opts_programs},
    };
    for (size_t f = 0; f < FT_COUNT(family); f++) {
        if (i < family[f].n) return &family[f].row[i];
        i -= family[f].n;
    }
    return NULL;
}
