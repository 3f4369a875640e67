/* cli/spec_opts.h - the options about drafting, with the names that other programs gave them. */
#ifndef FT_CLI_SPEC_OPTS_H
#define FT_CLI_SPEC_OPTS_H

#include "cli/opts.h"
#include "foretoken.h"

/* Everything about drafting that a model is opened with. */
ft_status ft_spec_opts(const ft_opts *o, ft_llm_params *p, ft_err *err);

#endif
