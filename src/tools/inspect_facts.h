/* tools/inspect_facts.h - interprets the keys and tensors of a file: a description of the
 * architecture, the drafter, memory use at a context length, and warnings. */
#ifndef FT_TOOLS_INSPECT_FACTS_H
#define FT_TOOLS_INSPECT_FACTS_H

#include "base/buf.h"
#include "gguf/gguf.h"

typedef struct ft_facts {
    char arch[64];
    char words[400];   /* the architecture */
    char drafter[300]; /* which drafter there is, or why there is none */
    bool has_drafter;  /* a usable MTP block, or the file is a drafter itself */
    double weights;    /* bytes of all tensors */
    bool memory_known; /* the following sizes are valid; in bytes, for one sequence */
    double kv, state, mtp_kv;
    char memory_note[160];
    ft_buf warnings; /* one per line */
} ft_facts;

void ft_facts_init(ft_facts *f, const ft_gguf *g, uint32_t ctx);
void ft_facts_release(ft_facts *f);

/* An integer key under the name of the architecture; for a list with a value per block, the value
 * of that block. def when absent or outside 0 .. 2^30. */
int64_t ft_facts_int(const ft_gguf *g, const char *arch, const char *key, int block, int64_t def);
/* The tensor blk.BLOCK.NAME, or NULL. */
const ft_gguf_tensor *ft_facts_block_tensor(const ft_gguf *g, int64_t block, const char *name);
/* general.architecture, "" when absent; truncated to the buffer */
void ft_facts_arch(const ft_gguf *g, char out[64]);

#endif
