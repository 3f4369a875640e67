/* scripts/params.c - prints what scripts/params.sh copies into other files: the fields of
 * ft_sampling ("header") and the field table of docs/api.md ("api"). It needs the table alone, so
 * it compiles also when the library does not yet. */
#include "base/params.c"

#include <ctype.h>
#include <stdio.h>

/* Of the default; a negative one stands for something else than a number of units. */
static const char *unit_of(const ft_param *p)
{
    return p->unit && p->def && p->def[0] != '-' ? p->unit : "";
}

/* ---- the fields of ft_sampling ---- */

/* A comment of lines of up to 100 columns. */
static void comment(const char *text)
{
    enum { INDENT = 7, WIDTH = 100, END = 3 };
    int column = INDENT;
    fputs("    /* ", stdout);
    for (const char *p = text; *p; p += strspn(p, " ")) {
        const int n = (int)strcspn(p, " ");
        if (column > INDENT && column + 1 + n + END > WIDTH) {
            fputs("\n     * ", stdout);
            column = INDENT;
        } else if (column > INDENT) {
            putchar(' ');
            column++;
        }
        fwrite(p, 1, (size_t)n, stdout);
        column += n;
        p += n;
    }
    puts(" */");
}

static void header_field(const char *type, const char *field, int row)
{
    char text[512];
    const ft_param *p = &ft_request_params[row];
    const char *unit = unit_of(p);
    snprintf(text, sizeof text, "%s. Default %s%s%s; from %.10g to %.10g.", p->help, p->def,
             *unit ? " " : "", unit, p->lo, p->hi);
    text[0] = (char)toupper((unsigned char)text[0]);
    comment(text);
    printf("    %s %s;\n", type, field);
}

static void print_header(void)
{
#define FT_SAMPLING(type, field, number, ...) header_field(#type, #field, FT_ROW_##field);
#include "base/request.def"
}

/* ---- the table of docs/api.md ---- */

static void code(const char *words)
{
    if (!words) printf(" |");
    for (const char *p = words; p && *p; p += strspn(p, " ")) {
        const int n = (int)strcspn(p, " ");
        printf("%s`%.*s`%s", p == words ? " " : ", ", n, p, p[n] ? "" : " |");
        p += n;
    }
}

static void print_default(const ft_param *p)
{
    if (p->kind == FT_PARAM_FLAG)
        printf(" %s |", p->def && p->def[0] == '1' ? "true" : "false");
    else if (p->flags & FT_PARAM_AT_LOAD)
        printf(" `--%s` |", p->name);
    else if (p->def)
        printf(" %s%s%s |", p->def, *unit_of(p) ? " " : "", unit_of(p));
    else
        printf(" %s |", p->def_note ? p->def_note : "none");
}

static void print_range(const ft_param *p)
{
    if (p->kind == FT_PARAM_INT || p->kind == FT_PARAM_FLOAT)
        printf(" %.10g to %.10g%s |", p->lo, p->hi, p->flags & FT_PARAM_CLAMP ? ", clamped" : "");
    else
        printf(" |");
}

static void print_api(void)
{
    puts("| field | OpenAI | Anthropic | Ollama | default | range | meaning |\n"
         "|---|---|---|---|---|---|---|");
    for (int i = 0; i < FT_REQUEST_ROWS; i++) {
        const ft_param *p = &ft_request_params[i];
        char name[64];
        if (!ft_param_json_name(p, 0, name)) continue;
        putchar('|');
        for (int a = 0; a < FT_JSON_APIS; a++) code(p->json[a]);
        print_default(p);
        print_range(p);
        printf(" %s%s%s |\n", p->help, p->json_note ? "; " : "", p->json_note ? p->json_note : "");
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "header"))
        print_header();
    else if (argc == 2 && !strcmp(argv[1], "api"))
        print_api();
    else
        return 2;
    return 0;
}
