#include "api/checkpoints.h"

#include "base/mem.h"

/* Where messages begin: there the next prompt of this conversation, or another conversation, is
 * likely to diverge. The first position is the end of the system message; the last one, the
 * start of the response's header, is where templates rewrite earlier reasoning and responses. */
static void find_messages(ft_prompt_marks *p, const ft_ids *ids, int32_t begin)
{
    int n = 0;
    for (int i = 1; i < (int)ids->n; i++) {
        if (ids->id[i] != begin) continue;
        if (n == FT_CHECKPOINTS_MAX)
            memmove(p->checkpoint + 1, p->checkpoint + 2,
                    sizeof *p->checkpoint * (size_t)(--n - 1));
        p->checkpoint[n++] = i;
    }
    p->n_checkpoint = n;
}

/* ---- responses ---- */

enum { MAX_HEADER = 64 };

/* What stands before a response, the longest first. The last one is the beginning of the others:
 * templates that open reasoning write it before responses whose reasoning they have removed, which
 * were generated at other positions. */
static const char *const header_text[] = {"<|im_start|>assistant\n<think>\n\n</think>\n\n",
                                          "<|im_start|>assistant\n<think>\n",
                                          "<|im_start|>assistant\n"};
enum { HEADERS = FT_COUNT(header_text), SHORTEST = HEADERS - 1 };

static bool ids_at(const ft_ids *ids, size_t at, const ft_ids *what)
{
    return what->n && at + what->n <= ids->n &&
           !memcmp(ids->id + at, what->id, sizeof *what->id * what->n);
}

/* Where the response of the message that begins at `at` begins; 0: it is none. */
static size_t response_at(const ft_ids *ids, size_t at, const ft_ids *header, int n)
{
    for (int i = 0; i < n; i++)
        if (ids_at(ids, at, &header[i])) return at + header[i].n;
    return 0;
}

static void find_responses(ft_prompt_marks *p, const ft_ids *ids, const ft_ids *header, int32_t end)
{
    const size_t n = header[SHORTEST].n;
    const bool plain = ids->n >= n && ids_at(ids, ids->n - n, &header[SHORTEST]);
    for (size_t i = 0; i < ids->n; i++) {
        if (ids->id[i] != header[SHORTEST].id[0]) continue;
        const size_t first = response_at(ids, i, header, plain ? HEADERS : SHORTEST);
        size_t to = first;
        while (to && to < ids->n && ids->id[to] != end) to++;
        if (to == first) continue;
        p->response = ft_realloc(p->response, sizeof *p->response * (size_t)(p->n_response + 1));
        p->response[p->n_response++] = (ft_task_range){(int)first, (int)to};
        i = to - 1;
    }
}

static ft_status find_qwen(ft_prompt_marks *p, const ft_llm *m, const ft_ids *ids, ft_err *err)
{
    ft_ids header[HEADERS];
    ft_status st = FT_OK;
    for (int i = 0; i < HEADERS; i++) {
        ft_ids_init(&header[i], MAX_HEADER);
        if (!st)
            st = ft_encode(m->vocab, ft_str_of(header_text[i]), FT_BPE_PARSE_SPECIAL, &header[i],
                           err);
    }
    const int32_t end = ft_vocab_find(m->vocab, FT_STR("<|im_end|>"));
    if (!st && end != FT_NO_TOKEN) find_responses(p, ids, header, end);
    for (int i = 0; i < HEADERS; i++) ft_ids_release(&header[i]);
    return st;
}

ft_status ft_prompt_marks_init(ft_prompt_marks *p, const ft_llm *m, const ft_ids *ids, ft_err *err)
{
    static const struct {
        const char *begin, *call;
    } tag[] = {[FT_CHAT_QWEN] = {"<|im_start|>", "<tool_call>"},
               [FT_CHAT_GEMMA4] = {"<|turn>", "<|tool_call>"}};
    *p = (ft_prompt_marks){0};
    const ft_chat_family f = m->chat ? ft_chat_family_of(m->chat) : FT_CHAT_PLAIN;
    if (f == FT_CHAT_PLAIN) return FT_OK;
    const int32_t begin = ft_vocab_find(m->vocab, ft_str_of(tag[f].begin));
    const int32_t call = ft_vocab_find(m->vocab, ft_str_of(tag[f].call));
    p->checkpoint_id = call == FT_NO_TOKEN ? 0 : call;
    if (begin == FT_NO_TOKEN) return FT_OK;
    find_messages(p, ids, begin);
    return f == FT_CHAT_QWEN ? find_qwen(p, m, ids, err) : FT_OK;
}

void ft_prompt_marks_release(ft_prompt_marks *p)
{
    ft_free(p->response);
    *p = (ft_prompt_marks){0};
}
