/* foretoken.h - the public C API of foretoken, an inference engine for GGUF models.
 *
 * This page is the whole interface: programs include this header and link libforetoken.
 * Every function that can fail returns ft_status and, when err is not NULL, leaves an error
 * message there that names the thing, the value found and the value wanted. */
#ifndef FORETOKEN_H
#define FORETOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
/* The functions of this header, and no others, are exported from the shared library. */
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* ---- errors -------------------------------------------------------------------------------- */

#ifndef FT_STATUS_DEFINED /* src/base/status.h has these lines too; `make layers` compares them */
#define FT_STATUS_DEFINED
typedef enum ft_status {
    FT_OK = 0,
    FT_EFORMAT = -1,      /* invalid format */
    FT_EUNSUPPORTED = -2, /* well formed, but not supported */
    FT_ELIMIT = -3,       /* exceeds a limit of the library */
    FT_ENOMEM = -4,
    FT_EIO = -5,    /* error from the operating system */
    FT_EINVAL = -6, /* invalid argument or option */
    FT_ENOTFOUND = -7,
    FT_ECANCELLED = -8,
    FT_EDEVICE = -9,
    FT_ECONTEXT = -10, /* the prompt is longer than the context */
    FT_EBUSY = -11,    /* the request queue is full */
} ft_status;

typedef struct ft_err {
    ft_status code;
    char text[500]; /* error message, lower case, no newline */
} ft_err;
#endif

/* ---- version ------------------------------------------------------------------------------- */

/* "0.1.0 (commit)", or "0.1.0" when it was not built in a git checkout. Never NULL. */
const char *ft_version(void);

/* ---- messages ------------------------------------------------------------------------------ */

/* The library never prints. fn gets its messages: level is 0 for errors, 1 for warnings, 2 for
 * information, 3 for debugging. Lines have no newline. fn NULL (the default): they are dropped. */
void ft_log_set(void (*fn)(void *user, int level, const char *line), void *user);

/* ---- vocabulary ---------------------------------------------------------------------------- */

/* The tokens of a model. Immutable, so any number of threads may share one. */
typedef struct ft_vocab ft_vocab;

enum {                              /* flags for encoding */
       FT_ENCODE_ADD_SPECIAL = 1,   /* add BOS and EOS as the model requires */
       FT_ENCODE_PARSE_SPECIAL = 2, /* encode the text of a control token as that token */
       FT_ENCODE_NO_NFC = 4,        /* no Unicode normalization */
};

/* Loads from a GGUF file: a model, or a file with a vocabulary and no tensors. */
ft_status ft_vocab_load(ft_vocab **out, const char *path, ft_err *err);
void ft_vocab_free(ft_vocab *v); /* accepts NULL */
/* The caller frees *ids with free(). text may contain any bytes; decoding restores them. */
ft_status ft_vocab_encode(const ft_vocab *v, const char *text, size_t bytes, unsigned flags,
                          int32_t **ids, size_t *n_ids, ft_err *err);
/* The caller frees *text with free(). It is followed by a zero byte and may be invalid UTF-8 when
 * the ids are only part of a text. special: include control tokens. */
ft_status ft_vocab_decode(const ft_vocab *v, const int32_t *ids, size_t n_ids, bool special,
                          char **text, size_t *bytes, ft_err *err);

/* Fill-in-the-middle tokens; -1 where the vocabulary has none. */
typedef struct ft_infill_ids {
    int32_t prefix, suffix, middle, file;
} ft_infill_ids;

ft_infill_ids ft_vocab_infill(const ft_vocab *v);

/* ---- models -------------------------------------------------------------------------------- */

typedef struct ft_llm ft_llm;

/* An n-gram drafter: ids that must repeat, ids to copy, times they must have been seen. */
typedef struct ft_ngram_params {
    int size_n, size_m, min_hits;
} ft_ngram_params;

typedef struct ft_llm_params {
    const char *model; /* a GGUF file; NULL: the model that ships with the program */
    const char
        *draft_model;    /* a Gemma assistant, a Qwen draft head or a smaller model; NULL: none */
    const char *device;  /* "auto": a CUDA GPU if there is one, else the processor; "cpu", "cuda",
                          * or "ref" for the plain one */
    const char *cache_k; /* encoding of cached keys: f32, f16, bf16, q8_0, q4_0, turbo2, turbo3,
                          * turbo4, turbo4-legacy */
    const char *cache_v; /* and of values */
    const char *cache;   /* quality, balanced or compact: a pair for both; NULL: as above */
    bool cache_exact;    /* these for every layer; else some layers get better ones */
    int cache_tail; /* 1: the most recent positions of turbo layers as q8_0 too; 0: not; < 0: with
                     * the pairs quality and balanced */
    const char *template_text; /* a chat template instead of the file's own; NULL: the file's */
    int threads;               /* 0: one per core */
    int gpu_layers;   /* layers on the device, the last ones; the output counts as one; < 0: as many
                       * as fit, INT_MAX: all */
    int cpu_moe;      /* experts of so many layers, the first ones, stay on the processor; < 0: as
                       * many as must */
    int fit_target;   /* MiB of the device's memory to leave free */
    int ctx;          /* tokens of a conversation; 0: as trained, at most 8192 */
    int slots;        /* conversations at a time */
    int64_t cells;    /* tokens of all of them together; 0: slots * ctx */
    int batch;        /* prompt tokens of a step; 0: 512, and 2048 on a GPU */
    int draft_max;    /* most drafts of a step; 0: no drafting */
    bool draft_fixed; /* always that many; else the governor chooses */
    /* Who drafts: "auto" (or NULL) for draft_model, or the model's head; "none"; or a list of
     * draft-mtp, draft-simple, ngram-simple, ngram-map-k, ngram-map-k4v, ngram-mod, ngram-cache. */
    const char *spec_type;
    ft_ngram_params ngram_simple, ngram_map_k, ngram_map_k4v; /* 12, 48, 1 each */
    int ngram_mod_match, ngram_mod_min, ngram_mod_max;        /* 24, 48, 64 */
    bool spec_reject; /* rejection sampling: more drafts agree, a seed gives other ids */
    int draft_vocab;  /* draft from this many frequent tokens alone; 0: all, < 0: as it pays */
    const char *draft_vocab_text; /* the text they are counted in; NULL: the file's own order */
    const char *lookup_static, *lookup_dynamic; /* files of ngram-cache; NULL: none */
    const char *spec_trace; /* a file that gets a line of JSON for every draft; NULL: none */
    void (*trace)(void *user, const char *line); /* gets these lines instead; may be NULL */
    void *trace_user;
    const char *mmproj;     /* GGUF file of the vision tower; NULL: the only mmproj*.gguf beside the
                             * model, if it fits the model */
    bool no_mmproj;         /* no vision tower: images are refused */
    int image_min_tokens;   /* of an image whose size goes by area; 0: as the file says */
    int image_max_tokens;   /* of an image; 0: 4096, or what the file says if that is less */
    int image_cache_mib;    /* host memory for the rows of recent images */
    int score_rows; /* > 0: ft_llm_perplexity will be called */
    bool no_mmap;   /* read the file instead of mapping it */
    /* Called while a file is loaded, with the bytes loaded so far and in all, and once more with
     * what = NULL when it is loaded or has failed. On any thread, one call at a time; may be NULL.
     */
    void (*progress)(void *user, const char *what, uint64_t done, uint64_t total);
    void *progress_user;
} ft_llm_params;

void ft_llm_defaults(ft_llm_params *p);
/* Fails before anything large is allocated when memory is insufficient. */
ft_status ft_llm_open(ft_llm **out, const ft_llm_params *p, ft_err *err);
void ft_llm_close(ft_llm *m); /* accepts NULL; free all sessions and jobs first */

typedef struct ft_llm_info {
    const char *path, *name, *arch; /* arch: a description such as "Qwen3.5, dense" */
    const char *device;
    const char *place;      /* description of what is on which device; "" if everything is on one */
    const char *drafter;    /* description, or the reason why there is none */
    const char *draft_type; /* as in --spec-type; "none": no drafting */
    const char *cache;      /* a table: cache type and size of each layer */
    const char *cache_summary; /* the same in one line */
    bool cache_small;          /* some layer uses a type other than f16 */
    bool drafts;
    bool draft_adapts;        /* the number of draft tokens is adaptive; false: always draft_max */
    int draft_max;            /* draft tokens per step */
    bool vision;              /* images can be read */
    const char *image_marker; /* text that stands for an image in a prompt; NULL: no images */
    bool has_template;
    const char *template_text; /* source of the chat template; NULL: none */
    const char *bos, *eos;     /* text of these tokens; "" if there is none */
    int layers, width, vocab, ctx, ctx_train, threads, slots;
    uint64_t parameters, weight_bytes;
    const char *weight_type; /* type of most weights: "Q4_K" */
    uint64_t cache_bytes;    /* cache and step buffers */
    uint64_t device_bytes;   /* planned GPU memory in total; 0: not computed */
    double load_s;
} ft_llm_info;

/* Size of the cache of one slot for a cache type, all layers and the drafter included. */
typedef struct ft_cache_size {
    double token_bytes,
        ratio;         /* bytes per token without the drafter; size of f16 divided by that */
    uint64_t bytes;    /* in total */
    char special[160]; /* layers that get another type, and why; "" if there are none */
} ft_cache_size;

/* Reads only the metadata of the model file. type: as for ft_llm_kvbench; out: [n]. */
ft_status ft_cache_sizes(const char *path, int ctx, const char *const *type, int n,
                         ft_cache_size *out, ft_err *err);
const ft_llm_info *ft_llm_about(const ft_llm *m);
const ft_vocab *ft_llm_vocab(const ft_llm *m);
/* Path of the default model: next to the program, in the source tree, or installed. NULL if there
 * is none. */
const char *ft_default_model(void);

/* ---- responses ------------------------------------------------------------------------------ */

/* A slot with its cache. One response at a time; the common prefix of a prompt and the cached
 * tokens is not processed again. */
typedef struct ft_session ft_session;

ft_session *ft_session_new(ft_llm *m); /* NULL if every slot is in use */
void ft_session_free(ft_session *s);   /* accepts NULL */

typedef struct ft_sampling {
    uint64_t seed;
    float temperature; /* 0: always the most likely token */
    int top_k;         /* 0: off */
    float top_p, min_p, typical_p, top_n_sigma;
    float xtc_probability, xtc_threshold;
    float dynatemp_range, dynatemp_exponent;
    int repeat_last_n;
    float repeat_penalty, presence_penalty, frequency_penalty;
    float dry_multiplier, dry_base;
    int dry_allowed_length, dry_last_n;
    const char *const *dry_breakers; /* texts; NULL: newline, colon, quote, asterisk */
    int n_dry_breakers;
    int mirostat; /* 0, 1 or 2 */
    float mirostat_tau, mirostat_eta;
    const char *samplers; /* their order: "penalties;dry;top_k;..."; NULL: the usual one */
    const int32_t *bias_id;
    const float *bias;
    int n_bias;
} ft_sampling;

/* The usual values, then those that the model file recommends. m may be NULL. */
void ft_sampling_defaults(ft_sampling *s, const ft_llm *m);

typedef enum ft_event_part {
    FT_PART_ANSWER,
    FT_PART_THOUGHT,
    FT_PART_CALL,
    FT_PART_ARGS
} ft_event_part;

typedef struct ft_token_prob {
    int32_t id;
    float logprob;
} ft_token_prob;

/* A piece of a response. Text consists of whole characters; a token that ends inside a character
 * has an event without text. */
typedef struct ft_event {
    const char *text;
    size_t bytes;
    ft_event_part part;
    int call;   /* index of the tool call, for CALL (text: name of the tool) and ARGS (text: a piece
                   of the JSON arguments) */
    int32_t id; /* token id; -1 for further text of the same token */
    bool drafted; /* the token is an accepted draft token */
    const ft_token_prob
        *probs; /* [0]: the token, then the most likely tokens; NULL unless requested */
    int n_probs;
} ft_event;

typedef enum ft_reason {
    FT_REASON_STOP,   /* end-of-sequence token or stop string */
    FT_REASON_LENGTH, /* max_tokens reached or context full */
    FT_REASON_CANCEL, /* cancelled by the callback */
} ft_reason;

typedef struct ft_response {
    ft_reason reason;
    const char *stop_text; /* the stop text that was met, or NULL; borrowed from the request */
    bool context_full;
    int prompt_tokens, cached_tokens, output_tokens;
    int thought_tokens;                      /* of the response's, those of its thoughts */
    int slot;                                /* where it ran; -1: nowhere */
    double wait_s;                           /* until a slot was free: of jobs */
    double prompt_s, output_s;               /* output_s starts at the first token */
    int64_t decode_steps, draft_steps;       /* steps of the response, and those that had drafts */
    int64_t drafted, accepted;               /* draft tokens proposed, and accepted */
    double draft_s, verify_s;                /* spent drafting and in the model */
    int64_t drafted_at[16], accepted_at[16]; /* steps that proposed, and accepted, draft i */
} ft_response;

/* An image of a request: a JPEG, PNG or WebP file in memory. */
typedef struct ft_image_input {
    const void *bytes;
    size_t n;
    int max_tokens; /* fewer than the model was opened with; 0: as many */
} ft_image_input;

enum { FT_REQUEST_IMAGES = 64 }; /* at most */

/* Bytes of "data:image/...;base64,DATA" or of base64 alone. *bytes is yours: free(). */
ft_status ft_image_from_text(const char *text, size_t n, void **bytes, size_t *n_bytes,
                             ft_err *err);
/* Prompt tokens that the image takes in place of its placeholder, from its header alone. */
ft_status ft_llm_image_tokens(const ft_llm *m, const ft_image_input *image, int *tokens,
                              ft_err *err);

typedef struct ft_request {
    const char *prompt; /* text; or ids below */
    size_t prompt_bytes;
    bool raw; /* the prompt is taken as it is: no BOS; special tokens are parsed either way */
    const int32_t *ids;
    int n_ids;
    const ft_image_input *images; /* one for each placeholder of the prompt, in its order */
    int n_images;
    int max_tokens; /* < 0: until the context is full */
    ft_sampling sampling;
    const char *grammar;     /* GBNF, or NULL */
    const char *json_schema; /* or NULL */
    const char *const *stop; /* texts that end the response */
    int n_stop;
    bool ignore_eos;  /* the end is banned, but a grammar ends where nothing else can follow */
    bool special;     /* print control tokens */
    int top_logprobs; /* < 0: none */
    int draft_max;    /* drafts of a step; < 0: as the model was opened */
    int draft_min;    /* fewer drafts than this are dropped */
    bool draft_fixed; /* always draft_max of them; else as the model was opened */
    float draft_p_min;
    bool in_thought;    /* the prompt ends inside a thought */
    bool parse;         /* split thoughts and tool calls from the answer */
    const char *tools;  /* JSON array: types of the parameters of calls; NULL: none */
    bool no_calls;      /* with parse: calls are not looked for */
    bool keep_thoughts; /* with parse: thoughts and their tags are part of the answer */
    /* With in_thought and parse a grammar or schema holds from the end of the thought on. With
     * triggers it holds from the first of these texts on, which belong to what it matches. */
    const char *const *grammar_trigger;
    int n_grammar_trigger;
    int reasoning_budget;          /* tokens of thought before it is closed; < 0: any number */
    const char *reasoning_message; /* said before a thought is closed for its budget; NULL: none */
    bool cache_prompt;             /* of jobs: look for the prompt's beginning, and keep it */
    int slot;                      /* of jobs: wished for; -1: any */
    bool progress;                 /* of jobs: wake also while the prompt is read */
    bool (*on_event)(void *user, const ft_event *e); /* false cancels; may be NULL */
    void *user;
} ft_request;

void ft_request_defaults(ft_request *r, const ft_llm *m);
/* Returns when the response is complete. */
ft_status ft_session_generate(ft_session *s, const ft_request *r, ft_response *out, ft_err *err);

/* ---- concurrent responses -------------------------------------------------------------------- */

typedef struct ft_queue_params {
    int waiting;    /* maximum number of waiting requests; more are rejected with FT_EBUSY */
    double step_ms; /* limit for steps that process a prompt while others generate; 0: none */
    uint64_t prefix_bytes; /* memory for the prefix cache; 0: no prefix cache */
    const char *cache_dir; /* folder that keeps the prefix cache across restarts; NULL: none */
} ft_queue_params;

void ft_queue_defaults(ft_queue_params *p);
/* Starts the engine thread, which uses all slots. From then on any thread may call the functions
 * below, and ft_session_new returns NULL. */
ft_status ft_llm_start(ft_llm *m, const ft_queue_params *p, ft_err *err);
/* drain: finish running and waiting responses first; otherwise they end with FT_REASON_CANCEL.
 * Returns when the thread has ended and the cache folder is written. A second call without drain,
 * from another thread, aborts a drain. */
void ft_llm_stop(ft_llm *m, bool drain);

/* A response being generated. Used by one thread at a time; free it before the model. */
typedef struct ft_job ft_job;

/* Copies the request. The prompt is tokenized and grammars are compiled on the calling thread, so
 * an invalid grammar or schema fails here, as does a prompt that is too long (FT_ECONTEXT);
 * r->on_event is ignored. wake(user) is called on the engine thread when ft_job_next may have an
 * event or the job is done; it must neither block nor call ft_job_*. FT_EBUSY: the queue is full;
 * FT_ECANCELLED: the engine has stopped; FT_EDEVICE: the device has failed. */
ft_status ft_job_new(ft_job **out, ft_llm *m, const ft_request *r, void (*wake)(void *user),
                     void *user, ft_err *err);
/* The next event, valid until the next call; false: none at the moment. Never blocks. A slow reader
 * pauses only its own response. */
bool ft_job_next(ft_job *j, ft_event *e);
bool ft_job_done(ft_job *j); /* all events have been read and the response has ended */
/* The result, after ft_job_done. */
ft_status ft_job_result(ft_job *j, ft_response *out, ft_err *err);

typedef struct ft_job_progress {
    int prompt_tokens, cached_tokens;
    int done_tokens;    /* processed prompt tokens, including cached ones */
    int waiting_before; /* number of requests ahead in the queue */
    int slot;           /* < 0: waiting */
    uint64_t id;        /* as in ft_slot_info.job */
} ft_job_progress;

void ft_job_look(ft_job *j, ft_job_progress *out);
void ft_job_cancel(ft_job *j);      /* takes effect within one step; from any thread */
void ft_job_end_thought(ft_job *j); /* ends the reasoning at the next token; from any thread */
/* Cancels the job. Accepts NULL and never waits for the engine. wake is not called afterwards. */
void ft_job_free(ft_job *j);

typedef enum ft_pooling { FT_POOL_MEAN, FT_POOL_LAST } ft_pooling;

/* Hidden rows of the ids after the final norm, pooled and normalized to length one. out: [width].
 * With a started engine thread it runs between two steps. Returns when done. */
ft_status ft_llm_embed(ft_llm *m, const int32_t *ids, int n, ft_pooling pooling, float *out,
                       ft_err *err);

typedef struct ft_slot_info {
    int id;
    bool busy;
    int ctx, prompt_tokens, output_tokens, cached_tokens;
    uint64_t job; /* 0: none */
    double accept_len,
        draft_mean; /* tokens and draft tokens per step with drafting; 0: no such step */
} ft_slot_info;

int ft_llm_slots(ft_llm *m, ft_slot_info *out, int cap); /* returns the number of slots */
/* Saves, restores and erases the prompt and response of an idle slot, with all state needed to
 * continue. */
ft_status ft_slot_save(ft_llm *m, int slot, const char *path, int *n_tokens, ft_err *err);
ft_status ft_slot_restore(ft_llm *m, int slot, const char *path, int *n_tokens, ft_err *err);
ft_status ft_slot_erase(ft_llm *m, int slot, int *n_tokens, ft_err *err);

enum { FT_STEP_BUCKETS = 16 };

typedef struct ft_llm_stats {
    uint64_t prompt_tokens, cached_tokens, output_tokens, steps, decode_steps, drafted, accepted;
    uint64_t preempted, cancelled, responses;
    double prompt_s, output_s;
    int busy, waiting;
    uint64_t prefix_bytes, prefix_hits, prefix_misses, prefix_entries, pages, pages_free;
    uint64_t pages_cached; /* pages in use by idle slots */
    uint64_t step_at[FT_STEP_BUCKETS +
                     1]; /* number of steps that took up to 2^i / 4096 s; the last: longer ones */
    double step_s;       /* duration of all steps */
    bool failed;         /* the device has failed; no request will be served */
} ft_llm_stats;

void ft_llm_counts(ft_llm *m, ft_llm_stats *out);

/* Renders messages (a JSON array of {role, content, ...}) with the chat template of the model.
 * options: a JSON object with tools, enable_thinking, add_generation_prompt and other variables of
 * the template; NULL: none. The caller frees *prompt with free(). It does not contain the BOS that
 * the tokenizer adds to every text that is not raw. *in_thought: the prompt ends inside a reasoning
 * block. */
ft_status ft_llm_render(const ft_llm *m, const char *messages, const char *options, char **prompt,
                        bool *in_thought, ft_err *err);

/* Restrictions on tool calls. */
typedef struct ft_tool_rules {
    const char *name;          /* name of the only tool that may be called; NULL: any */
    bool one_call;             /* at most one call */
    const char *answer_schema; /* schema of a JSON answer that is allowed instead of a call; NULL:
                                  calls only */
} ft_tool_rules;

/* Whether the "format" of a JSON schema can be enforced with these bounds on the length. */
bool ft_schema_holds_format(const char *format, int64_t min, int64_t max);
/* A grammar for calls of the tools (a JSON array), in the syntax of the model. The caller frees
 * *gbnf with free(). *trigger: the text that a call begins with, for ft_request.grammar_trigger. */
ft_status ft_llm_tool_grammar(const ft_llm *m, const char *tools, const ft_tool_rules *rules,
                              char **gbnf, const char **trigger, ft_err *err);

/* ---- measuring ----------------------------------------------------------------------------- */

typedef struct ft_perplexity {
    double ppl, nll, error; /* error: standard error of ppl */
    int64_t tokens;         /* number of scored tokens */
    int chunks;
    double seconds;
} ft_perplexity;

/* Splits ids into chunks of ctx and scores the second half of each; chunks <= 0: all. progress may
 * be NULL. */
ft_status ft_llm_perplexity(ft_llm *m, const int32_t *ids, size_t n_ids, int ctx, int chunks,
                            void (*progress)(void *user, int chunk, int chunks, double ppl),
                            void *user, ft_perplexity *out, ft_err *err);

/* Measures, without drafting, the seconds for a prompt of n_prompt random tokens and for generating
 * n_gen tokens at a context length of `depth`. Either may be 0. */
ft_status ft_llm_time(ft_llm *m, int n_prompt, int n_gen, int depth, double *prompt_s,
                      double *gen_s, ft_err *err);
/* Measures the seconds of n verification steps with rows - 1 draft tokens at a context length of
 * `depth`. ft_llm_params.draft_max must be at least rows - 1. */
ft_status ft_llm_steps(ft_llm *m, int rows, int depth, int n, double *seconds, ft_err *err);
/* Measures decoding of several sequences: each gets `depth` random tokens, then all of them decode
 * until the first has generated n_gen. The model needs as many slots. */
typedef struct ft_decode_params {
    int seqs, depth, n_gen;
    int draft_max;        /* fixed number of draft tokens per step; 0: none; < 0: adaptive */
    const double *accept; /* simulated acceptance: probability for draft token i, the last one for
                             all further ones; NULL: real acceptance */
    int n_accept;
    const ft_sampling *sampling; /* NULL: greedy */
} ft_decode_params;

typedef struct ft_decode_time {
    double seconds;
    int64_t tokens, decode_steps, drafted, accepted; /* of all sequences */
    double draft_s, verify_s;                        /* parts of seconds */
} ft_decode_time;

ft_status ft_llm_decode(ft_llm *m, const ft_decode_params *p, ft_decode_time *out, ft_err *err);
/* Cost of an op in a step: seconds (minimum), bytes moved, floating point operations. */
typedef struct ft_op_time {
    const char *op;
    int layer; /* -1: before the first layer; the number of layers: after the last */
    double calls, seconds, bytes, flops;
} ft_op_time;

/* Runs like ft_llm_time, synchronizing after every op: one of n_prompt and n_gen is 0. The caller
 * frees *out with free(). *rows: set it above 1 for steps like those of ft_llm_steps; on return the
 * rows of a step. */
ft_status ft_llm_ops(ft_llm *m, int n_prompt, int n_gen, int depth, ft_op_time **out, int *n,
                     int *rows, ft_err *err);
/* Peak arithmetic operations per second of the device; 0: unknown. */
double ft_llm_arithmetic(ft_llm *m);

/* Quality and size of a cache type compared with f16. */
typedef struct ft_kvbench_row {
    const char *type; /* as requested */
    double ppl, ppl_ratio;
    double kld, kld_max;    /* KL divergence of the next-token distribution: mean and maximum */
    double top1;            /* share of positions with the same most likely token */
    double correlation;     /* correlation of attention scores in the worst layer without a sliding
                               window */
    double token_bytes;     /* cache bytes per token */
    double ratio;           /* bytes of f16 divided by that */
    double prompt_s, gen_s; /* seconds per token, 0: not measured */
} ft_kvbench_row;

typedef struct ft_kvbench_params {
    const char *const *type; /* "turbo3", "q8_0/turbo4" (keys/values), or a preset */
    int n_type;
    bool exact; /* as in ft_llm_params */
    int tail;
    const int32_t *ids;
    size_t n_ids;
    int ctx, chunks;  /* as in ft_llm_perplexity */
    int depth, n_gen; /* speed test: generate n_gen tokens at a context length of depth; 0: none */
    void (*progress)(void *user, const char *what, int done, int all);
    void *user;
} ft_kvbench_params;

/* row: [n_type]. The cache type that the model was opened with does not matter. */
ft_status ft_llm_kvbench(ft_llm *m, const ft_kvbench_params *p, ft_kvbench_row *row, ft_err *err);
/* Measured read bandwidth of the device memory, in bytes per second. */
double ft_llm_bandwidth(ft_llm *m);
/* ---- chat templates ------------------------------------------------------------------------ */

/* A parsed Jinja chat template. Immutable, so any number of threads may share one. */
typedef struct ft_template ft_template;

/* From source text, or from tokenizer.chat_template of a GGUF file (then the variables bos_token
 * and eos_token default to the tokens of the file). */
ft_status ft_template_new(ft_template **out, const char *source, size_t bytes, ft_err *err);
ft_status ft_template_load(ft_template **out, const char *path, ft_err *err);
void ft_template_free(ft_template *t); /* accepts NULL */
/* json: an object with the variables; a missing one is undefined, null is none. The caller frees
 * *text with free(). It is followed by a zero byte. */
ft_status ft_template_render(const ft_template *t, const char *json, size_t bytes, char **text,
                             size_t *text_bytes, ft_err *err);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
