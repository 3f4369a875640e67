/* The rows of options and request parameters: a name means one row of a program, no program knows
 * one spelling twice, every row is complete and in plain words, and its default is that of the C
 * structs. */
#include "cli/opts_table.c"
#include "cli/opts.c"
#include "cli/opts_compat.c"
#include "cli/opts_draft.c"
#include "cli/opts_model.c"
#include "cli/opts_programs.c"
#include "cli/opts_serve.c"
#include "serve/serve.h"
#include "unit.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>

#define EACH_ROW(p) for (int i_##p = 0; ((p) = ft_opt_row(i_##p)); i_##p++)

static void names_are_unique(void **state)
{
    (void)state;
    const ft_param *a, *b;
    EACH_ROW(a)
    EACH_ROW(b)
    if (a != b && (a->programs & b->programs) && !strcmp(a->name, b->name))
        fail_msg("two rows of one program are named %s", a->name);
}

static void spellings_are_unique(void **state)
{
    (void)state;
    const ft_param *a, *b;
    EACH_ROW(a)
    EACH_ROW(b)
    {
        if (a == b || !(a->programs & b->programs)) continue;
        for (const char *p = a->aliases; p && *p; p += strspn(p, " ")) {
            char word[64];
            snprintf(word, sizeof word, "%.*s", (int)strcspn(p, " "), p);
            if (names(b, word)) fail_msg("%s means --%s and --%s", word, a->name, b->name);
            p += strcspn(p, " ");
        }
    }
}

/* Numbers without a unit. */
static bool is_plain_number(const char *name)
{
    static const char *const plain[] = {"seed",
                                        "mirostat",
                                        "port",
                                        "spec-ngram-min-hits",
                                        "spec-ngram-simple-min-hits",
                                        "main-gpu",
                                        "repetitions",
                                        "id_slot",
                                        "log-verbosity",
                                        "n_cmpl",
                                        "spec-ngram-map-k-min-hits",
                                        "spec-ngram-map-k4v-min-hits",
                                        "embd-normalize",
                                        "rank"};
    for (size_t i = 0; i < FT_COUNT(plain); i++)
        if (!strcmp(plain[i], name)) return true;
    return false;
}

static void rows_are_complete(void **state)
{
    (void)state;
    const ft_param *p;
    EACH_ROW(p)
    {
        char json[64] = "";
        const bool field = ft_param_json_name(p, 0, json);
        const char *name = p->name ? p->name : json;
        const bool number = p->kind == FT_PARAM_INT || p->kind == FT_PARAM_FLOAT;
        const bool unused = p->flags & (FT_PARAM_IGNORED | FT_PARAM_REFUSED);
        if (!p->help || !*p->help) fail_msg("%s has no help", name);
        if (!p->name != !p->programs)
            fail_msg("%s: a name needs programs, and programs a name", name);
        if (!p->name && !field) fail_msg("a row has neither an option nor a JSON field");
        if (p->kind != FT_PARAM_FLAG && !p->value) fail_msg("%s: its value has no name", name);
        if (number && !(p->lo < p->hi)) fail_msg("%s has no range", name);
        if ((number || p->kind == FT_PARAM_CHOICE) && !unused && !p->def && !p->def_note)
            fail_msg("%s has no default", name);
        if (p->kind == FT_PARAM_INT && !unused && !p->unit && !is_plain_number(name))
            fail_msg("%s has no unit", name);
        if (unused && (!p->why || p->group != FT_GROUP_COMPAT || !(p->flags & FT_PARAM_LONG)))
            fail_msg("%s is not supported: want a reason, in the group of such options", name);
        ft_err err;
        if (p->def && check_value(p, name, p->def, &err)) fail_msg("default of %s", err.text);
    }
}

/* Words that only this project used, and marks of a sentence in the wrong place. */
static void check_words(const char *name, const char *text)
{
    static const char *const private[] = {
        "lane",    "agree",   "round",    "the past",        "who ",     " earns", "peer",
        "reckon",  "woven",   " card",    " cells",          "talk",     "soften", " reply",
        "replies", "thought", "drafts a", "as many as must", "always on"};
    if (!text) return;
    for (size_t i = 0; i < FT_COUNT(private); i++)
        if (strstr(text, private[i])) fail_msg("%s: \"%s\" has \"%s\"", name, text, private[i]);
    const size_t n = strlen(text);
    if (n && (text[n - 1] == '.' || text[n - 1] == ' '))
        fail_msg("%s: \"%s\" ends badly", name, text);
    if (isupper((unsigned char)text[0]) && islower((unsigned char)text[1]) &&
        strncmp(text, "Mirostat", 8) && strncmp(text, "Jinja", 5) && strncmp(text, "YaRN", 4))
        fail_msg("%s: \"%s\" begins with a capital", name, text);
}

static void words_are_plain(void **state)
{
    (void)state;
    const ft_param *p;
    EACH_ROW(p)
    {
        const char *name = p->name ? p->name : "a field";
        check_words(name, p->help);
        check_words(name, p->why);
        check_words(name, p->def_note);
    }
}

static void json_fields_are_unique(void **state)
{
    (void)state;
    char a[64], b[64];
    for (int i = 0; i < FT_REQUEST_ROWS; i++)
        for (int n = 0; ft_param_json_name(&ft_request_params[i], n, a); n++)
            for (int k = 0; k < i; k++)
                for (int m = 0; ft_param_json_name(&ft_request_params[k], m, b); m++)
                    if (!strcmp(a, b)) fail_msg("two rows have the field %s", a);
#define FT_SAMPLING(type, field, number, ...)                                                      \
    assert_non_null(ft_request_params[FT_ROW_##field].json[FT_JSON_LLAMA]);
#include "base/request.def"
}

static void json_spellings_in_order(void **state)
{
    (void)state;
    static const char *const want[] = {"n_predict", "max_completion_tokens", "max_tokens",
                                       "max_output_tokens", "num_predict"};
    char name[64];
    for (int i = 0; i < (int)FT_COUNT(want); i++) {
        assert_true(ft_param_json_name(&ft_request_params[FT_ROW_max_tokens], i, name));
        assert_string_equal(name, want[i]);
    }
    assert_false(ft_param_json_name(&ft_request_params[FT_ROW_max_tokens], FT_COUNT(want), name));
}

/* ---- defaults ---- */

static void same_number(unsigned cmd, const char *name, double c)
{
    ft_opts *o;
    ft_err err;
    char *argv[] = {"program"};
    assert_int_equal(ft_opts_parse(&o, cmd, 1, argv, &err), FT_OK);
    const char *text = ft_opts_text(o, name);
    const double row = text ? strtod(text, NULL) : 0;
    if (fabs(row - c) > 1e-6 * fabs(c))
        fail_msg("--%s: the row has %g, the struct %g", name, row, c);
    ft_opts_free(o);
}

static void same_word(const char *name, const char *c)
{
    ft_opts *o;
    ft_err err;
    char *argv[] = {"program"};
    assert_int_equal(ft_opts_parse(&o, FT_CMD_SERVE, 1, argv, &err), FT_OK);
    assert_string_equal(ft_opts_text(o, name), c);
    ft_opts_free(o);
}

static void defaults_of_loading(void **state)
{
    (void)state;
    ft_llm_params p;
    ft_llm_defaults(&p);
    same_word("device", p.device);
    same_word("cache-type-k", p.cache_k);
    same_word("cache-type-v", p.cache_v);
    same_word("spec-type", p.spec_type);
    const struct {
        const char *name;
        double c;
    } number[] = {
        {"threads", p.threads},
        {"ctx-size", p.ctx},
        {"batch-size", p.batch},
        {"n-cpu-moe", p.cpu_moe},
        {"fit-target", p.fit_target},
        {"mmap", !p.no_mmap},
        {"kv-exact", p.cache_exact},
        {"kv-cells", (double)p.cells},
        {"spec-draft-n-max", p.draft_max},
        {"spec-ngram-size-n", p.ngram_simple.size_n},
        {"spec-ngram-size-m", p.ngram_simple.size_m},
        {"spec-ngram-min-hits", p.ngram_simple.min_hits},
        {"spec-ngram-size-n", p.ngram_map_k.size_n},
        {"spec-ngram-size-m", p.ngram_map_k4v.size_m},
        {"spec-ngram-mod-n-match", p.ngram_mod_match},
        {"spec-ngram-mod-n-min", p.ngram_mod_min},
        {"spec-ngram-mod-n-max", p.ngram_mod_max},
    };
    for (size_t i = 0; i < FT_COUNT(number); i++)
        same_number(FT_CMD_SERVE, number[i].name, number[i].c);
    assert_int_equal(p.gpu_layers, -1); /* "auto" */
    assert_int_equal(p.cache_tail, -1);
    assert_int_equal(p.draft_vocab, -1);
    same_word("gpu-layers", "auto");
    same_word("kv-tail", "auto");
    same_word("draft-vocab", "auto");
    same_word("spec-adapt", p.draft_fixed ? "off" : "on");
    same_word("spec-sampling", p.spec_reject ? "reject" : "match");
}

/* The fields of a request have the default of their option, unless it is applied at loading. */
static void defaults_of_requests(void **state)
{
    (void)state;
    ft_request r;
    ft_request_defaults(&r, NULL);
#define FT_SAMPLING(type, field, number, ...)                                                      \
    assert_true(fabsf((float)r.sampling.field -                                                    \
                      strtof(ft_request_params[FT_ROW_##field].def, NULL)) < 1e-6f);
#define FT_REQUEST(type, field, number, ...)                                                       \
    {                                                                                              \
        const ft_param *p = &ft_request_params[FT_ROW_##field];                                    \
        if (p->name && p->def && !(p->flags & FT_PARAM_AT_LOAD))                                   \
            same_number(p->programs & -p->programs, p->name, (double)r.field);                     \
    }
#include "base/request.def"
    assert_int_equal(r.draft_max, -1);
}

static void defaults_of_the_server(void **state)
{
    (void)state;
    ft_queue_params q;
    ft_queue_defaults(&q);
    same_number(FT_CMD_SERVE, "queue-max", q.waiting);
    same_number(FT_CMD_SERVE, "max-step-ms", q.step_ms);
    same_number(FT_CMD_SERVE, "cache-ram", (double)(q.prefix_bytes >> 20));
#if FT_HAVE_HTTPD
    ft_serve_params s;
    ft_serve_defaults(&s);
    same_word("host", s.host);
    same_word("cors-methods", s.cors_methods);
    same_word("cors-headers", s.cors_headers);
    same_word("reasoning-format", s.reasoning_format);
    same_number(FT_CMD_SERVE, "port", s.port);
    same_number(FT_CMD_SERVE, "queue-max", s.queue);
    same_number(FT_CMD_SERVE, "timeout", s.timeout_s);
    same_number(FT_CMD_SERVE, "sse-ping-interval", s.ping_s);
    same_number(FT_CMD_SERVE, "max-connections", s.connections);
    same_number(FT_CMD_SERVE, "max-body", (double)(s.body_max >> 20));
    same_number(FT_CMD_SERVE, "reasoning-budget", s.reasoning_budget);
    same_number(FT_CMD_SERVE, "cache-prompt", s.cache_prompt);
    same_number(FT_CMD_SERVE, "slots", s.slots);
    same_number(FT_CMD_SERVE, "metrics", s.metrics);
    same_number(FT_CMD_SERVE, "props", s.props);
    same_number(FT_CMD_SERVE, "webui", !s.no_page);
    same_number(FT_CMD_SERVE, "seed", (double)s.seed);
#endif
}

/* ---- parsing ---- */

static ft_status parse(const char *a, const char *b, ft_err *err)
{
    char x[64], y[64], *argv[] = {"serve", x, y};
    ft_opts *o = NULL;
    snprintf(x, sizeof x, "%s", a);
    snprintf(y, sizeof y, "%s", b ? b : "");
    const ft_status st = ft_opts_parse(&o, FT_CMD_SERVE, b ? 3 : 2, argv, err);
    ft_opts_free(o);
    return st;
}

static void unsupported_options(void **state)
{
    (void)state;
    ft_err err;
    assert_int_equal(parse("-dr", "x", &err), FT_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "-dr x is not supported"));
    assert_int_equal(parse("--context-shift", NULL, &err), FT_EUNSUPPORTED);
    assert_int_equal(parse("--no-context-shift", NULL, &err), FT_OK); /* that is how it is */
    assert_int_equal(parse("--pooling", "last", &err), FT_OK);
    assert_int_equal(parse("--pooling", "sum", &err), FT_EINVAL);
    assert_int_equal(parse("-fa", "maybe", &err), FT_EINVAL);
    assert_int_equal(parse("--ctx-siz", "3", &err), FT_EINVAL);
    assert_int_equal(parse("--ctx-size", NULL, &err), FT_EINVAL);
    assert_int_equal(parse("--draft-max", "x", &err), FT_EINVAL);
}

/* The value of an option after parsing, for one program. */
static void parsed(unsigned cmd, const char *a, const char *b, const char *name, const char *want)
{
    ft_err err;
    char x[64], y[64], *argv[] = {"program", x, y};
    ft_opts *o = NULL;
    snprintf(x, sizeof x, "%s", a);
    snprintf(y, sizeof y, "%s", b ? b : "");
    if (ft_opts_parse(&o, cmd, b ? 3 : 2, argv, &err)) fail_msg("%s: %s", a, err.text);
    assert_string_equal(ft_opts_text(o, name), want);
    ft_opts_free(o);
}

static void llama_command_lines(void **state)
{
    (void)state;
    parsed(FT_CMD_SERVE, "--draft-max", "16", "spec-draft-n-max", "15"); /* the nearest */
    parsed(FT_CMD_RUN, "-b", "99999", "batch-size", "8192");
    parsed(FT_CMD_RUN, "-fa", NULL, "flash-attn", "on"); /* the value may be left out, */
    parsed(FT_CMD_RUN, "-fa", "--mlock", "mlock", "1");  /* also before another option */
    parsed(FT_CMD_BENCH, "-fa", "1", "flash-attn", "on");
    parsed(FT_CMD_SERVE, "-fa", "0", "flash-attn", "off");
    parsed(FT_CMD_SERVE, "--fit", "disabled", "fit", "off");
    parsed(FT_CMD_RUN, "--color", "true", "color", "on");
    parsed(FT_CMD_SERVE, "-nkvo", NULL, "kv-offload", "0");
    parsed(FT_CMD_SERVE, "-no-kvu", NULL, "kv-unified", "0");
    parsed(FT_CMD_CHAT, "-no-cnv", NULL, "conversation", "0");
    parsed(FT_CMD_SERVE, "--no-ui", NULL, "webui", "0"); /* of an alias */
    parsed(FT_CMD_RUN, "--no-mmproj-auto", NULL, "no-mmproj", "1");
    parsed(FT_CMD_RUN, "--mmproj-auto", NULL, "no-mmproj", "0");
    parsed(FT_CMD_RUN, "--port", "1", "seed", "-1"); /* of another program: no effect */
    parsed(FT_CMD_BENCH, "--top-nsigma", "1", "top-k", "40");
}

/* Options of other programs: only those that generate share one list. */
static void other_programs(void **state)
{
    (void)state;
    ft_err err;
    ft_opts *o = NULL;
    char a[] = "--dry-run", *argv[] = {"run", a};
    assert_int_equal(ft_opts_parse(&o, FT_CMD_RUN, 2, argv, &err), FT_EINVAL);
    char b[] = "--reuse-port", *refused[] = {"run", b};
    assert_int_equal(ft_opts_parse(&o, FT_CMD_RUN, 2, refused, &err), FT_EUNSUPPORTED);
}

/* Every spelling that unsets a switch: --no- before the name and each long alias. */
static void switches_can_be_unset(void **state)
{
    (void)state;
    const ft_param *p;
    EACH_ROW(p)
    {
        if (p->kind != FT_PARAM_FLAG || !p->name) continue;
        for (const char *a = p->aliases; a && *a; a += strspn(a, " ")) {
            char no[80];
            bool negated;
            const size_t n = strcspn(a, " ");
            snprintf(no, sizeof no, "--no-%.*s", (int)n - 2, a + 2);
            if (!strncmp(a, "--", 2) && find_typed(p->programs, no, &negated) < 0)
                fail_msg("%s is unknown", no);
            a += n;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_unique),       cmocka_unit_test(spellings_are_unique),
        cmocka_unit_test(rows_are_complete),      cmocka_unit_test(words_are_plain),
        cmocka_unit_test(json_fields_are_unique), cmocka_unit_test(json_spellings_in_order),
        cmocka_unit_test(defaults_of_loading),    cmocka_unit_test(defaults_of_requests),
        cmocka_unit_test(defaults_of_the_server), cmocka_unit_test(unsupported_options),
        cmocka_unit_test(llama_command_lines),    cmocka_unit_test(other_programs),
        cmocka_unit_test(switches_can_be_unset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
