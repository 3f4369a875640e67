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
    FT_ENOSPC = -12,   /* the disk or the quota is full */
} ft_status;

typedef struct ft_err {
    ft_status code;
    char text[500]; /* error message, lower case, no newline */
} ft_err;

enum { FT_DRAFT_MAX = 15 }; /* maximum number of draft tokens per step */
#endif

/* ---- version ------------------------------------------------------------------------------- */

/* "0.1.0 (commit)", or "0.1.0" when it was not built in a git checkout. Never NULL. */
const char *ft_version(void);
/* Device i that this build finds on this machine, as "NAME: description" with the NAME of
 * ft_llm_params.device; its memory, driver and features. false: there are no more. */
bool ft_device_at(int i, char *to, size_t cap);

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

/* Several processes, started by mpirun (in builds with MPI=1). Call ft_ranks_start first; *rank is
 * the number of this process, *ranks that of all. Rank 0 opens models as usual: their layers are
 * split over all ranks. The others call ft_ranks_serve, which returns when rank 0 ends. Rank 0
 * calls ft_ranks_end when all models are closed. Without mpirun there is one rank. */
struct ft_llm_params;
ft_status ft_ranks_start(int *rank, int *ranks, ft_err *err);
ft_status ft_ranks_serve(const struct ft_llm_params *p, ft_err *err);
void ft_ranks_end(void);

enum { FT_ADAPTERS_MAX = 16 };

/* A LoRA adapter: a GGUF file with general.type = adapter, made for the model. */
typedef struct ft_lora_file {
    const char *path;
    float scale; /* of requests that have no scales of their own; 0: it is not applied */
} ft_lora_file;

/* An n-gram drafter: length of the n-gram to look up, maximum number of tokens to copy, minimum
 * number of earlier occurrences. */
typedef struct ft_ngram_params {
    int size_n, size_m, min_hits;
} ft_ngram_params;

typedef struct ft_llm_params {
    const char *model;       /* a GGUF file; NULL: the model that ships with the program */
    const char *draft_model; /* a Gemma assistant, a Qwen draft head or a smaller model; NULL: none
                              */
    /* "auto": the CUDA GPUs where there are some (the first one if the model fits), else the CPU;
     * "cpu", "cuda:N", "ref" (the scalar reference implementation), or several, separated by
     * commas, over which the layers are split. */
    const char *device;
    const char *split_mode; /* "layer"; "expert": experts are spread over the devices; or "none":
                             * only GPU main_gpu is used */
    const char
        *tensor_split;   /* "3,1": shares of the listed devices in the layers; NULL: by memory */
    int main_gpu;        /* with "none" */
    const char *cache_k; /* encoding of cached keys: f32, f16, bf16, q8_0, q5_1, q5_0, q4_1,
                          * q4_0, iq4_nl (q5 to iq4_nl without q4_0: not on CUDA), turbo2, turbo3,
                          * turbo4, turbo4-legacy */
    const char *cache_v; /* encoding of cached values */
    const char *cache;   /* quality, balanced or compact: sets both; NULL: as above */
    bool cache_exact;    /* use these for every layer; else some layers get better ones */
    int cache_tail; /* 1: keep the most recent tokens of turbo layers in q8_0 as well; 0: do not;
                     * < 0: with quality and balanced. Not supported on CUDA. */
    const char
        *template_text; /* a chat template that replaces the model file's; NULL: the file's */
    int threads;        /* CPU threads; 0: one per core */
    int gpu_layers; /* layers in GPU memory, counted from the output layer, which is one of them;
                     * < 0: as many as fit; INT_MAX: all */
    int cpu_moe;    /* the experts of this many layers, the first ones, stay in CPU memory; < 0: as
                     * few layers as possible */
    int fit_target; /* MiB of GPU memory to leave free */
    /* Matrices whose name has a match of a regular expression go to CPU or GPU memory:
     * "PATTERN=CPU", "PATTERN=CUDA1"; several are separated by commas. */
    const char *const *override_tensor;
    int n_override_tensor;
    /* "KEY=TYPE:VALUE" replaces a key of the model file, with the types int, float, bool, str. */
    const char *const *override_kv;
    int n_override_kv;
    const ft_lora_file *lora;
    int n_lora;               /* at most FT_ADAPTERS_MAX */
    const char *rope_scaling; /* none, linear, yarn; NULL: as in the file, or linear if there is a
                                 scale */
    float rope_scale, rope_freq_base; /* 0: as in the file */
    int yarn_orig_ctx;                /* trained context length; 0: as in the file */
    /* < 0: as in the file, or 1, 1, 1, 32 */
    float yarn_ext_factor, yarn_attn_factor, yarn_beta_slow, yarn_beta_fast;
    int ctx;          /* context length in tokens; 0: as trained, at most 8192; < 0: as trained */
    int slots;        /* sequences at a time */
    int64_t cells;    /* cached tokens of all sequences together; 0: slots * ctx */
    int batch;        /* prompt tokens per step; 0: 512, on a GPU 2048 or, with experts, 4096 */
    int draft_max;    /* maximum number of draft tokens per step; 0: no speculative decoding */
    bool draft_fixed; /* always draft_max; else the length is chosen by measured speed */
    /* Draft methods: "auto" (or NULL) for draft_model, or the model's MTP head; "none"; or a list
     * of draft-mtp, draft-simple, ngram-simple, ngram-map-k, ngram-map-k4v, ngram-mod, ngram-cache.
     */
    const char *spec_type;
    ft_ngram_params ngram_simple, ngram_map_k, ngram_map_k4v; /* 12, 48, 1 each */
    int ngram_mod_match, ngram_mod_min, ngram_mod_max;        /* 24, 48, 64 */
    bool spec_reject; /* rejection sampling: more draft tokens are accepted, but a seed gives
                       * another response than without drafting */
    int draft_vocab;  /* draft from this many frequent tokens only; 0: all; < 0: half of a large
                       * vocabulary */
    const char *draft_vocab_text; /* a text to count them in; NULL: the order of the vocabulary */
    const char *lookup_static, *lookup_dynamic; /* files of ngram-cache; NULL: none */
    const char *spec_trace; /* a file that gets a line of JSON for every draft; NULL: none */
    void (*trace)(void *user, const char *line); /* gets these lines instead; may be NULL */
    void *trace_user;
    const char *mmproj;   /* GGUF file of the vision tower; NULL: the only mmproj*.gguf beside the
                           * model, if it fits the model */
    bool mmproj_found;    /* nobody named mmproj: that it does not fit the model is a warning */
    bool no_mmproj;       /* no vision tower: images are refused */
    int image_min_tokens; /* of an image whose size goes by area; 0: as the file says */
    int image_max_tokens; /* of an image; 0: 4096, or what the file says if that is less */
    const char *image_background; /* "RRGGBB" on which transparent images are blended; NULL: their
                                   * alpha is ignored */
    int image_cache_mib;          /* host memory for the rows of recent images */
    int micro_batches; /* parts of a step, if layers are on several devices, which compute them at
                        * the same time; 0: as measured, 1: one */
    int score_rows;    /* prompt tokens per step that can be scored, by ft_llm_perplexity and
                        * ft_request.score_prompt: 64 to 8192; 0: neither is used */
    bool no_mmap;      /* read the file instead of mapping it */
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
    const char *call_marker;   /* text that begins a tool call; NULL: the template has no calls */
    const char *bos, *eos;     /* text of these tokens; "" if there is none */
    int layers, width, vocab, ctx, ctx_train, threads, slots;
    int pooling;               /* ft_pooling that the file recommends; -1: none */
    bool ranks;                /* it has a classification head: FT_POOL_RANK */
    const char *rank_template; /* prompt for ranking, with {query} and {document}; NULL: none */
    int draft_layers;          /* of the MTP head or the draft model; 0: none */
    int jobs_max; /* jobs of one client that may run or wait at a time; 0: ft_llm_start was not
                   * called */
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

/* A loaded adapter. The strings are those of the file, "" if it has none, and live as long as the
 * model. */
typedef struct ft_adapter_info {
    const char *path;
    const char *task_name, *prompt_prefix;
    float scale; /* of requests that have no scales of their own */
} ft_adapter_info;

/* The adapters in the order of ft_llm_params.lora; returns how many there are. Any thread may call
 * these two functions. */
int ft_llm_adapters(ft_llm *m, ft_adapter_info *out, int cap);
/* Sets the scales of requests that begin later and have none of their own. */
ft_status ft_llm_adapt(ft_llm *m, const float *scale, int n, ft_err *err);

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
    /* begin: generated from src/base/request.def */
    /* Sampling temperature (0: always take the most likely token). Default 0.8; from 0 to 100. */
    float temperature;
    /* Sample from the N most likely tokens (0: disabled). Default 40 tokens; from 0 to 1048576. */
    int top_k;
    /* Sample from the fewest tokens whose probabilities sum to P (1: disabled). Default 0.95;
     * from 0 to 1. */
    float top_p;
    /* Drop tokens whose probability is below P times that of the most likely token (0:
     * disabled). Default 0.05; from 0 to 1. */
    float min_p;
    /* Locally typical sampling: keep the tokens closest to the expected information content
     * until their probabilities sum to P (1: disabled). Default 1; from 0 to 1. */
    float typical_p;
    /* Keep tokens whose logit is within X standard deviations of the largest (-1: disabled).
     * Default -1; from -1 to 1000. */
    float top_n_sigma;
    /* Minimum number of tokens that the samplers above and XTC leave. Default 0 tokens; from 0
     * to 1048576. */
    int min_keep;
    /* XTC: probability with which the most likely tokens are left out, all but the last above
     * the threshold (0: disabled). Default 0; from 0 to 1. */
    float xtc_probability;
    /* XTC: tokens at or above this probability can be left out (above 0.5: disabled). Default
     * 0.1; from 0 to 1. */
    float xtc_threshold;
    /* Dynamic temperature: vary it between --temp - X and --temp + X with the entropy of the
     * distribution (0: disabled). Default 0; from 0 to 100. */
    float dynatemp_range;
    /* Dynamic temperature: exponent of the entropy. Default 1; from 0 to 100. */
    float dynatemp_exponent;
    /* Divide the positive logits of recent tokens by X and multiply the negative ones by it (1:
     * disabled). Default 1; from 0 to 100. */
    float repeat_penalty;
    /* Number of recent tokens that the penalties look at (0: disabled, -1: the context length).
     * Default 64 tokens; from -1 to 1048576. */
    int repeat_last_n;
    /* Subtract X from the logits of tokens that occurred recently (0: disabled). Default 0; from
     * -100 to 100. */
    float presence_penalty;
    /* Subtract X from the logit of a token for each recent occurrence (0: disabled). Default 0;
     * from -100 to 100. */
    float frequency_penalty;
    /* DRY: strength of the penalty against repeating a sequence of tokens (0: disabled). Default
     * 0; from 0 to 100. */
    float dry_multiplier;
    /* DRY: factor by which the penalty grows with each further repeated token. Default 1.75;
     * from 0 to 100. */
    float dry_base;
    /* DRY: repetitions of up to this length are not penalised. Default 2 tokens; from 0 to
     * 1048576. */
    int dry_allowed_length;
    /* DRY: number of recent tokens searched for repetitions (0: disabled, -1: the context
     * length). Default 64 tokens; from -1 to 1048576. */
    int dry_last_n;
    /* Mirostat version 1 or 2, which replaces the truncating samplers (0: disabled). Default 0;
     * from 0 to 2. */
    int mirostat;
    /* Mirostat: target entropy. Default 5 bits; from 0 to 100. */
    float mirostat_tau;
    /* Mirostat: learning rate. Default 0.1; from 0 to 100. */
    float mirostat_eta;
    /* end: generated */
    const char *const *dry_breakers; /* strings; NULL: newline, colon, quotation mark, asterisk */
    int n_dry_breakers;
    const char *samplers;   /* order: "penalties;dry;top_k;..."; NULL: the default order */
    const int32_t *bias_id; /* [n_bias] token ids, and what is added to their logits */
    const float *bias;
    int n_bias;
} ft_sampling;

/* The defaults above, replaced by what the model file recommends. m may be NULL. */
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
    int thought_tokens;                /* output tokens that are thinking */
    int slot;                          /* where it ran; -1: nowhere */
    double wait_s;                     /* jobs: until a slot was free */
    double prompt_s, output_s;         /* output_s starts at the first token */
    int64_t decode_steps, draft_steps; /* steps of the response, and those with draft tokens */
    int64_t drafted, accepted;         /* draft tokens proposed, and accepted */
    double draft_s, verify_s;          /* spent drafting and in the model */
    int64_t drafted_at[FT_DRAFT_MAX];  /* steps that proposed a draft token at position i */
    int64_t accepted_at[FT_DRAFT_MAX]; /* steps that accepted it */
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
    bool raw; /* add no BOS token to the prompt; special tokens are parsed either way */
    const int32_t *ids;
    int n_ids;
    const ft_image_input *images; /* one for each placeholder of the prompt, in its order */
    int n_images;
    int max_tokens; /* to generate; < 0: until the context is full */
    ft_sampling sampling;
    const char *grammar;     /* GBNF, or NULL */
    const char *json_schema; /* or NULL */
    const char *const *stop; /* strings that end the response */
    int n_stop;
    bool ignore_eos;    /* never generate an end-of-text token; a grammar ends the response where
                         * nothing else can follow */
    bool special;       /* print control tokens */
    int top_logprobs;   /* log probabilities of so many alternatives; < 0: none */
    bool score_prompt;  /* jobs, with top_logprobs: also the log probabilities of the prompt */
    int draft_max;      /* maximum number of draft tokens per step; < 0: as the model was opened */
    int draft_min;      /* shorter drafts are discarded */
    bool draft_fixed;   /* always draft_max of them; else as the model was opened */
    float draft_p_min;  /* a draft ends at a token that is less likely than this */
    bool in_thought;    /* the prompt ends inside a thinking section */
    bool parse;         /* separate thinking and tool calls from the answer */
    const char *tools;  /* JSON array: types of the parameters of calls; NULL: none */
    bool no_calls;      /* with parse: do not look for tool calls */
    bool keep_thoughts; /* with parse: leave thinking and its tags in the answer */
    /* With in_thought and parse a grammar or schema applies from the end of the thinking on. With
     * triggers it applies from the first of these strings on, which are part of what it matches. */
    const char *const *grammar_trigger;
    int n_grammar_trigger;
    int reasoning_budget;          /* maximum number of thinking tokens; < 0: no limit */
    const char *reasoning_message; /* inserted where the budget ends the thinking; NULL: nothing */
    bool cache_prompt;   /* jobs: reuse the cached prefix of the prompt, and cache this prompt */
    uint64_t cache_salt; /* cached prompts are shared by requests with the same salt */
    const float *lora; /* [n_lora] scales of the adapters, 0 for those that are missing; NULL: those
                        * of ft_llm_adapt. Cached prompts are shared by requests with the same */
    int n_lora;
    int slot;        /* jobs: preferred slot; -1: any */
    uint64_t client; /* jobs: the client whose share of the queue it uses; 0: none */
    bool progress;   /* jobs: call wake also while the prompt is processed */
    bool (*on_event)(void *user, const ft_event *e); /* false cancels; may be NULL */
    void *user;
} ft_request;

void ft_request_defaults(ft_request *r, const ft_llm *m);
/* Returns when the response is complete. */
ft_status ft_session_generate(ft_session *s, const ft_request *r, ft_response *out, ft_err *err);

/* ---- concurrent responses -------------------------------------------------------------------- */

typedef struct ft_queue_params {
    int waiting;    /* maximum number of waiting requests; more are rejected with FT_EBUSY */
    int per_client; /* maximum number of requests of one client that run or wait; 0: no limit */
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

/* After ft_job_done of a request with score_prompt: for each prompt token i a row of *width
 * entries: the token with its log probability given the tokens before it (NaN for the first token),
 * then the most likely tokens; unused entries have the id -1. *n: number of rows, 0 without
 * score_prompt. Borrowed from the job. */
const ft_token_prob *ft_job_scores(const ft_job *j, int *n, int *width);

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

/* What becomes of the hidden rows of a text, after the final norm: their mean, the last or the
 * first one, all of them, or the score of the model's classification head for the last one. */
typedef enum ft_pooling {
    FT_POOL_MEAN,
    FT_POOL_LAST,
    FT_POOL_CLS,
    FT_POOL_NONE,
    FT_POOL_RANK
} ft_pooling;

/* Hidden rows of the ids, pooled and normalized to length one: out is [width]. FT_POOL_NONE: [n,
 * width], as they are; FT_POOL_RANK: one score, FT_EUNSUPPORTED without ft_llm_info.ranks. With a
 * started engine thread it runs between two steps. Returns when done. */
ft_status ft_llm_embed(ft_llm *m, const int32_t *ids, int n, ft_pooling pooling, float *out,
                       ft_err *err);

/* Several texts as such vectors, without waiting: the engine thread computes them beside everything
 * else that runs. */
typedef struct ft_embedding_params {
    const int32_t *const *ids; /* [n]: of each text; copied */
    const int *n_ids;          /* [n] */
    int n;
    ft_pooling pooling;
    bool raw;                 /* do not normalize them to length one */
    uint64_t client;          /* as in ft_request */
    void (*wake)(void *user); /* called once, on the engine thread, when all are done */
    void *user;
} ft_embedding_params;

typedef struct ft_embedding ft_embedding;

/* Needs a started queue. FT_EBUSY: the queue is full. */
ft_status ft_embedding_new(ft_embedding **out, ft_llm *m, const ft_embedding_params *p,
                           ft_err *err);
bool ft_embedding_done(ft_embedding *e);
/* When done: *out is [n, width] and belongs to e. FT_POOL_NONE: the rows of all tokens of the first
 * text, then those of the second, and so on; FT_POOL_RANK: [n]. */
ft_status ft_embedding_result(ft_embedding *e, const float **out, ft_err *err);
void ft_embedding_cancel(ft_embedding *e); /* from any thread; it is done within a step */
/* Cancels; accepts NULL; never waits for the engine. wake is not called any more. */
void ft_embedding_free(ft_embedding *e);

typedef struct ft_slot_info {
    int id;
    bool busy;
    int ctx, prompt_tokens, output_tokens, cached_tokens;
    uint64_t job;                  /* 0: none yet */
    uint64_t cache_salt;           /* of the request whose context it holds */
    double accept_len, draft_mean; /* tokens and drafts of a step that drafted; 0: there was none */
} ft_slot_info;

int ft_llm_slots(ft_llm *m, ft_slot_info *out, int cap); /* how many there are */
/* The prompt and response that an idle slot holds, with all that is needed to go on from there.
 * FT_ENOTFOUND: there is no such slot, or its context belongs to requests with another salt. */
ft_status ft_slot_save(ft_llm *m, int slot, uint64_t cache_salt, const char *path, int *n_tokens,
                       ft_err *err);
ft_status ft_slot_restore(ft_llm *m, int slot, uint64_t cache_salt, const char *path, int *n_tokens,
                          ft_err *err);
ft_status ft_slot_erase(ft_llm *m, int slot, uint64_t cache_salt, int *n_tokens, ft_err *err);

enum { FT_STEP_BUCKETS = 16 };

typedef struct ft_llm_stats {
    uint64_t prompt_tokens, cached_tokens, output_tokens, steps, decode_steps, drafted, accepted;
    uint64_t preempted, cancelled, responses;
    double prompt_s, output_s;
    int busy, waiting;
    uint64_t prefix_bytes, prefix_entries; /* of all prefix checkpoints; their number */
    uint64_t prefix_state; /* bytes of one of them besides its pages, at the longest context */
    uint64_t prefix_hits, prefix_misses; /* prompts of which some tokens, or none, were cached */
    uint64_t pages, pages_free;
    uint64_t pages_cached; /* pages in use by idle slots */
    uint64_t step_at[FT_STEP_BUCKETS +
                     1]; /* number of steps that took up to 2^i / 4096 s; the last: longer ones */
    double step_s;       /* duration of all steps */
    double run_s;        /* time in which there was a request to run */
    double device_s;     /* of that, time in which the GPU ran a step; 0: not measured */
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
/* A rendered prompt as a person reads it. If the model reads images, ft_llm_render writes aliases
 * where a message has the text of an image's placeholder, which the tokenizer reads as that text;
 * here they are the text again. The caller frees it with free(). */
char *ft_llm_prompt_text(const ft_llm *m, const char *prompt);

/* Restrictions on tool calls. */
typedef struct ft_tool_rules {
    const char *name;          /* name of the only tool that may be called; NULL: any */
    bool one_call;             /* at most one call */
    const char *answer_schema; /* schema of a JSON answer that is allowed instead of a call; NULL:
                                  calls only */
} ft_tool_rules;

/* Removes the keywords of a JSON schema that cannot be enforced, such as look-ahead in a pattern:
 * *out is a schema that ft_request.json_schema takes, and *removed a JSON array with a text
 * "KEYWORD at PATH: WHY" for each (empty: none). Both are yours (free()). Fails if the schema is
 * invalid, contradicts itself or is too large. */
ft_status ft_schema_enforceable(const char *schema, char **out, char **removed, ft_err *err);
/* A GBNF grammar, for ft_request.grammar, of the texts that a regular expression matches as a
 * whole; yours (free()). FT_EUNSUPPORTED: it has what a grammar cannot express, such as look-ahead
 * or back references. */
ft_status ft_regex_grammar(const char *regex, char **gbnf, ft_err *err);
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
    double device_s; /* of seconds, time in which the GPU ran a step; 0: not measured */
} ft_decode_time;

ft_status ft_llm_decode(ft_llm *m, const ft_decode_params *p, ft_decode_time *out, ft_err *err);
/* Cost of an op in a step: seconds (minimum), bytes moved, floating point operations. */
typedef struct ft_op_time {
    const char *op;
    int layer; /* -1: before the first layer; the number of layers: after the last */
    double calls, seconds, bytes, flops;
} ft_op_time;

/* The steps to profile: those of a prompt, or decode steps. */
typedef struct ft_ops_params {
    int n_prompt;     /* of a prompt of so many tokens; a long one: its last full step */
    int n_gen, depth; /* n_prompt = 0: so many decode steps at this context length, */
    int rows;         /* each with so many rows of one sequence, as in ft_llm_steps, */
    int seqs;         /* or, if above 1, with one row of so many sequences */
} ft_ops_params;

/* Runs these steps and waits after every op. The caller frees *out with free(). *rows: rows of a
 * step. */
ft_status ft_llm_ops(ft_llm *m, const ft_ops_params *p, ft_op_time **out, int *n, int *rows,
                     ft_err *err);
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
