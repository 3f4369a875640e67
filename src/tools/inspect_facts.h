/* tools/inspect_facts.h - what the keys and tensors of a file mean: the architecture in words, the
 * drafter, memory at a context length, and what looks wrong. */
#ifndef FT_TOOLS_INSPECT_FACTS_H
#define FT_TOOLS_INSPECT_FACTS_H

#include "base/buf.h"
#include "gguf/gguf.h"

typedef struct ft_facts {
    char arch[64];
    char words[400];   /* the architecture */
    char drafter[300]; /* what there is, or why there is none */
    bool has_drafter;  /* a usable MTP block, or the file is a drafter itself */
    double weights;    /* bytes of all tensors */
    bool memory_known; /* the rest of the bytes, for one sequence */
    double kv, state, mtp_kv;
    char memory_note[160];
    ft_buf warnings; /* one per line */
} ft_facts;

void ft_facts_init(ft_facts *f, const ft_gguf *g, uint32_t ctx);
void ft_facts_release(ft_facts *f);

/* A key under the architecture's name; for one that has a value per block, that block's. The
 * value is bounded to 0 .. 2^30, else def. */
int64_t ft_facts_int(const ft_gguf *g, const char *arch, const char *key, int block, int64_t def);
/* general.architecture, "" when absent; cut when absurdly long */
void ft_facts_arch(const ft_gguf *g, char out[64]);

#endif
