#include "report/report.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"

json_t *ft_json_string(const char *p, size_t n)
{
    json_t *s = json_stringn(p, n); /* NULL if not UTF-8 */
    if (s) return s;
    ft_buf b;
    ft_buf_init(&b, SIZE_MAX / 2);
    ft_utf8_repair(&b, p, n);
    s = json_stringn(ft_buf_z(&b), b.len);
    ft_buf_release(&b);
    return s;
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

double ft_prompt_rate(const ft_response *r)
{
    return ratio(r->prompt_tokens - r->cached_tokens, r->prompt_s);
}

/* Time is measured from the first token on, so n tokens are n - 1 intervals. */
double ft_response_rate(const ft_response *r)
{
    return r->output_tokens > 1 ? ratio(r->output_tokens - 1, r->output_s) : 0;
}

json_t *ft_timings_json(const ft_response *r)
{
    const int evaluated = r->prompt_tokens - r->cached_tokens;
    const int intervals = FT_MAX(0, r->output_tokens - 1);
    json_t *j = json_pack(
        "{s:i, s:i, s:f, s:f, s:f, s:i, s:f, s:f, s:f}", "cache_n", r->cached_tokens, "prompt_n",
        evaluated, "prompt_ms", r->prompt_s * 1e3, "prompt_per_token_ms",
        ratio(r->prompt_s * 1e3, evaluated), "prompt_per_second", ft_prompt_rate(r), "predicted_n",
        r->output_tokens, "predicted_ms", r->output_s * 1e3, "predicted_per_token_ms",
        ratio(r->output_s * 1e3, intervals), "predicted_per_second", ft_response_rate(r));
    if (r->drafted <= 0) return j;
    const double steps = (double)r->draft_steps;
    json_object_set_new(j, "draft_n", json_integer(r->drafted));
    json_object_set_new(j, "draft_n_accepted", json_integer(r->accepted));
    json_object_set_new(j, "draft_rounds", json_integer(r->draft_steps));
    json_object_set_new(j, "draft_accept_len",
                        json_real(steps > 0 ? 1 + (double)r->accepted / steps : 0));
    json_object_set_new(j, "draft_k_mean", json_real(ratio((double)r->drafted, steps)));
    return j;
}
