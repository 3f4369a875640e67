/* cli/spec_opts.h - converts the options of speculative decoding to ft_llm_params. */
#ifndef FT_CLI_SPEC_OPTS_H
#define FT_CLI_SPEC_OPTS_H

#include "cli/opts.h"
#include "foretoken.h"

/* Sets the fields of p about drafting. */
ft_status ft_spec_opts(const ft_opts *o, ft_llm_params *p, ft_err *err);

#endif
