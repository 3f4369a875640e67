/* api/calibrate.c - the text on which keys are measured before a compact cache is used. */
#include "api/model.h"

#include "base/mem.h"

/* A varied text, so that many kinds of keys occur. */
static const char text[] =
    "A reader who opens the box finds three things: a letter, a map, and a list of numbers.\n"
    "The letter begins \"Dear Ada, it is 1843 and the engine still does not run.\"\n\n"
    "```c\n"
    "static int below(const int *v, int n, int limit)\n"
    "{\n"
    "    int count = 0;\n"
    "    for (int i = 0; i < n; i++)\n"
    "        if (v[i] < limit) count++;\n"
    "    return count;\n"
    "}\n"
    "```\n\n"
    "| month | rain (mm) | sun (h) |\n|---|---|---|\n| May | 61.5 | 212 |\n| June | 48.0 | 240 "
    "|\n\n"
    "Wer langsam geht, kommt auch an. El mapa no es el territorio. Qui cherche trouve.\n"
    "1. Measure the length twice. 2. Cut once. 3. Write down what you did, and why.\n"
    "{\"name\": \"query\", \"arguments\": {\"city\": \"Oslo\", \"days\": [1, 2, 3]}}\n"
    "Why does ice float? Because water is one of the few substances whose solid form takes more "
    "room than the liquid: its molecules hold each other at arm's length.\n";

ft_status ft_llm_calibrate(ft_kv_calibration **out, ft_llm *m, ft_kv_type t, int ctx, ft_err *err)
{
    int32_t *ids, use[FT_CALIBRATE_MAX];
    size_t n;
    ft_status st =
        ft_vocab_encode(m->vocab, text, sizeof text - 1, FT_ENCODE_ADD_SPECIAL, &ids, &n, err);
    if (st) return st;
    const int most = FT_MIN(FT_CALIBRATE_MAX, FT_MAX(ctx, FT_CALIBRATE_MIN));
    for (int i = 0; i < most; i++) use[i] = n ? ids[(size_t)i % n] : 0;
    ft_free(ids);
    return ft_calibrate(out, m->model, t, use, most, ctx, err);
}
