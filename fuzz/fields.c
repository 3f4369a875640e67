/* Requests that are JSON and have the fields of the APIs, with values that are right, nearly right
 * and wrong: the bytes are a program that writes the body. Random bytes seldom get past the parser;
 * these always do. */
#define _GNU_SOURCE
#include "routes.h"

enum { MAX_BODY = 1 << 16, MAX_NEST = 12 };

typedef struct script {
    const uint8_t *p;
    size_t n;
} script;

static unsigned take(script *s, unsigned below)
{
    if (!s->n) return 0;
    s->n--;
    return *s->p++ % below;
}

static const char *const FIELD[] = {
    "messages",
    "prompt",
    "input",
    "content",
    "tokens",
    "model",
    "stream",
    "n",
    "max_tokens",
    "n_predict",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "seed",
    "stop",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "n_probs",
    "grammar",
    "json_schema",
    "response_format",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "samplers",
    "dry_sequence_breakers",
    "dry_multiplier",
    "repeat_last_n",
    "cache_prompt",
    "id_slot",
    "stream_options",
    "include_usage",
    "chat_template_kwargs",
    "reasoning_effort",
    "reasoning_budget",
    "reasoning_format",
    "thinking",
    "system",
    "instructions",
    "input_prefix",
    "input_suffix",
    "input_extra",
    "encoding_format",
    "dimensions",
    "options",
    "format",
    "keep_alive",
    "raw",
    "suffix",
    "echo",
    "best_of",
    "filename",
    "id",
    "action",
    "add_special",
    "with_pieces",
    "speculative",
    "speculative.n_max",
    "timings_per_token",
    "return_tokens",
    "post_sampling_probs",
    "response_fields",
    "t_max_predict_ms",
    "text",
    "metadata",
    "truncation",
    "lora",
    "functions",
    "function_call",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "structured_outputs",
    "output_config",
    "output_format",
    "background",
    "previous_response_id",
    "query",
    "documents",
    "texts",
    "top_n",
    "source",
    "destination",
    "from",
    "name",
    "parameters",
    "images",
    "think",
    "n_cmpl",
    "return_progress",
    "sse_ping_interval",
    "reasoning",
    "stop_sequences",
    "max_completion_tokens",
    "embd_normalize",
    "verbose",
    "continue_final_message",
    "cache_shared",
    "adaptive_target",
    "grammar_lazy",
    "grammar_triggers",
    "preserved_tokens",
    "mirostat",
    "ignore_eos",
    "min_keep",
    "xtc_probability",
    "return_drafted",
    "context",
    "stop_token_ids",
};
static const char *const MEMBER[] = {
    "role",
    "content",
    "type",
    "text",
    "name",
    "arguments",
    "function",
    "tool_calls",
    "id",
    "tool_call_id",
    "input",
    "parameters",
    "properties",
    "required",
    "items",
    "enum",
    "schema",
    "json_schema",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "anyOf",
    "$ref",
    "additionalProperties",
    "image_url",
    "url",
    "prompt_string",
    "multimodal_data",
    "filename",
    "enable_thinking",
    "include_usage",
    "n_max",
    "p_min",
    "num_predict",
    "tool_use_id",
    "thinking",
    "scale",
    "value",
    "input_schema",
    "effort",
    "regex",
    "choice",
    "json",
    "grammar",
    "structural_tag",
    "detail",
    "source",
    "data",
    "media_type",
    "call_id",
    "output",
    "summary",
    "multipleOf",
    "propertyNames",
    "format",
    "oneOf",
    "allOf",
    "const",
    "minItems",
    "maxItems",
    "prefixItems",
    "patternProperties",
    "exclusiveMinimum",
    "$defs",
    "uniqueItems",
    "not",
};
static const char *const TEXT[] = {
    "",
    "user",
    "assistant",
    "system",
    "tool",
    "text",
    "function",
    "object",
    "string",
    "integer",
    "array",
    "json_schema",
    "json_object",
    "auto",
    "required",
    "none",
    "say:one two",
    "say/stop:a",
    "root ::= \\\"a\\\" | [0-9]{1,3}",
    "root ::= root",
    "[a-z]+(x|y){2,9}",
    "float",
    "base64",
    "\\u00e9\\ud83d\\ude00",
    "<|im_start|>",
    "</think>",
    "#/$defs/a",
    "../x",
    "input_text",
    "tool_result",
    "max_tokens",
    "5",
    "-4294967291",
    "top_k;temperature",
    "high",
    "image",
    "message",
    "function_call_output",
    "save",
    "restore",
    "erase",
    "custom",
    "input_image",
    "data:image/png;base64,iVBORw0KGgo=",
    "date-time",
    "(?=.*a)b",
    "^a{2,3}$",
    "foretoken-tiny",
    "x:latest",
    "low",
    "disabled",
    "enabled",
    "any",
    "reasoning",
    "output_text",
    "redacted_thinking",
    "file",
    "0",
    "tool_use",
};
static const char *const NUMBER[] = {
    "0",
    "1",
    "-1",
    "2",
    "7",
    "100",
    "1e9",
    "-1e9",
    "0.5",
    "1e308",
    "2147483648",
    "-2147483649",
    "4294967301",
    "-4294967291",
    "9223372036854775807",
    "-9223372036854775808",
    "1e-320",
    "65536",
};

#define PICK(s, list) (list)[take(s, (unsigned)FT_COUNT(list))]

static void put_value(script *s, ft_buf *b, int depth);

static void put_members(script *s, ft_buf *b, int depth, bool top)
{
    const unsigned n = take(s, top ? 12 : 6);
    ft_buf_putc(b, '{');
    for (unsigned i = 0; i < n; i++) {
        ft_buf_printf(b, "%s\"%s\":", i ? "," : "", top ? PICK(s, FIELD) : PICK(s, MEMBER));
        put_value(s, b, depth + 1);
    }
    ft_buf_putc(b, '}');
}

static void put_list(script *s, ft_buf *b, int depth)
{
    const unsigned n = take(s, 6);
    ft_buf_putc(b, '[');
    for (unsigned i = 0; i < n; i++) {
        if (i) ft_buf_putc(b, ',');
        put_value(s, b, depth + 1);
    }
    ft_buf_putc(b, ']');
}

/* A message, a tool and a schema as they should be, now and then with a hole in them. */
static void put_known(script *s, ft_buf *b, int depth)
{
    static const char *const part[][2] = {
        {"{\"role\":\"user\",\"content\":", "}"},
        {"{\"role\":\"assistant\",\"tool_calls\":", "}"},
        {"{\"type\":\"function\",\"function\":", "}"},
        {"{\"name\":\"f\",\"parameters\":", "}"},
        {"{\"type\":\"json_schema\",\"json_schema\":", "}"},
        {"{\"type\":\"object\",\"properties\":", "}"},
        {"[{\"role\":\"user\",\"content\":", "}]"},
        {"{\"type\":\"text\",\"text\":", "}"},
        {"[{\"id\":0,\"scale\":", "}]"},
        {"{\"type\":\"image_url\",\"image_url\":{\"url\":", "}}"},
        {"{\"type\":\"array\",\"items\":", "}"},
        {"{\"json\":", "}"},
    };
    const unsigned k = take(s, (unsigned)FT_COUNT(part));
    ft_buf_puts(b, part[k][0]);
    put_value(s, b, depth + 1);
    ft_buf_puts(b, part[k][1]);
}

static void put_value(script *s, ft_buf *b, int depth)
{
    switch (depth > MAX_NEST || b->len > MAX_BODY ? 0u : take(s, 10)) {
    case 1: ft_buf_puts(b, PICK(s, NUMBER)); break;
    case 2: ft_buf_puts(b, take(s, 2) ? "true" : "false"); break;
    case 3: put_list(s, b, depth); break;
    case 4: put_members(s, b, depth, false); break;
    case 5:
    case 6: put_known(s, b, depth); break;
    case 7: ft_buf_puts(b, "null"); break;
    default: ft_buf_printf(b, "\"%s\"", PICK(s, TEXT)); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!server) start_model();
    script s = {data, n};
    const unsigned char route = (unsigned char)take(&s, 256);
    ft_buf b;
    ft_buf_init(&b, 1 << 20);
    const bool list = wants_list(route);
    if (list)
        put_list(&s, &b, 0);
    else
        put_members(&s, &b, 0, true);
    ft_http_error bad;
    json_t *j;
    if (!ft_body_parse(&j, ft_buf_str(&b), list, &bad)) abort(); /* what is written here is JSON */
    json_decref(j);
    answer_once(route, ft_buf_str(&b));
    ft_buf_release(&b);
    return 0;
}
