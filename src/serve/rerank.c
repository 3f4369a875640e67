#include "serve/rerank.h"

#include "base/mem.h"

#include <stdlib.h>

static const json_t *documents_of(const json_t *body)
{
    const json_t *list = ft_get(body, "documents");
    return list ? list : ft_get(body, "texts");
}

/* template with {query} and {document} replaced. */
static void fill_template(ft_buf *b, const char *template, const char *query, const char *document)
{
    static const char first[] = "{query}", second[] = "{document}";
    while (*template) {
        if (!strncmp(template, first, sizeof first - 1)) {
            ft_buf_put(b, query, strlen(query));
            template += sizeof first - 1;
        } else if (!strncmp(template, second, sizeof second - 1)) {
            ft_buf_put(b, document, strlen(document));
            template += sizeof second - 1;
        } else {
            ft_buf_putc(b, *template ++);
        }
    }
}

static json_t *prompt_of(const ft_served *d, const char *query, const char *document)
{
    ft_buf b;
    ft_buf_init(&b, SIZE_MAX / 2);
    if (d->info->rank_template) {
        fill_template(&b, d->info->rank_template, query, document);
    } else {
        const char *eos = d->info->eos ? d->info->eos : "";
        ft_buf_printf(&b, "%s%s", query, eos);
        ft_buf_printf(&b, "%s%s", document, eos);
    }
    json_t *j = ft_json_string(ft_buf_z(&b), b.len);
    ft_buf_release(&b);
    return j;
}

json_t *ft_rerank_prompts(const ft_served *d, const json_t *body, ft_http_error *error)
{
    const json_t *query = ft_get(body, "query"), *list = documents_of(body), *one;
    char brief[72];
    size_t i;
    if (!json_is_string(query)) {
        ft_http_error_set(error, FT_ERR_INVALID, "query", "query is %s, want a string",
                          ft_json_brief(query, brief));
        return NULL;
    }
    if (!json_is_array(list) || !json_array_size(list)) {
        ft_http_error_set(error, FT_ERR_INVALID, "documents",
                          "documents is %s, want an array of at least one string",
                          ft_json_brief(list, brief));
        return NULL;
    }
    json_t *out = json_array();
    json_array_foreach(list, i, one)
    {
        if (!json_is_string(one)) {
            ft_http_error_set(error, FT_ERR_INVALID, "documents",
                              "documents[%zu] is %s, want a string", i, ft_json_brief(one, brief));
            json_decref(out);
            return NULL;
        }
        json_array_append_new(out, prompt_of(d, json_string_value(query), json_string_value(one)));
    }
    return out;
}

bool ft_rerank_top(const json_t *body, int n, int *top, ft_http_error *error)
{
    *top = n;
    if (!ft_want_int(body, "top_n", 0, 1 << 30, top, error)) return false;
    *top = FT_MIN(*top, n);
    return true;
}

typedef struct ranked {
    int index;
    float score;
} ranked;

static int by_score(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->index - y->index;
}

static json_t *sorted(const json_t *body, const float *score, int n, int top)
{
    const bool tei = ft_get(body, "texts") != NULL;
    const bool text = tei && json_is_true(ft_get(body, "return_text"));
    ranked *r = ft_new_n(ranked, (size_t)n);
    for (int i = 0; i < n; i++) r[i] = (ranked){i, score[i]};
    qsort(r, (size_t)n, sizeof *r, by_score);
    json_t *list = json_array();
    for (int i = 0; i < top; i++) {
        json_t *one = json_pack("{s:i, s:f}", "index", r[i].index,
                                tei ? "score" : "relevance_score", (double)r[i].score);
        if (text)
            json_object_set(one, "text", json_array_get(documents_of(body), (size_t)r[i].index));
        json_array_append_new(list, one);
    }
    ft_free(r);
    return list;
}

json_t *ft_rerank_answer(const json_t *body, const char *model, const ft_prompts *p,
                         const float *score, int top)
{
    int tokens = 0;
    json_t *list = sorted(body, score, p->n, top);
    if (ft_get(body, "texts")) return list;
    for (int i = 0; i < p->n; i++) tokens += p->at[i].n;
    return json_pack("{s:s, s:s, s:{s:i, s:i}, s:o}", "model", model, "object", "list", "usage",
                     "prompt_tokens", tokens, "total_tokens", tokens, "results", list);
}
