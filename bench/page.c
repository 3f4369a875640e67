/* bench/page.c - writes docs/bench.md and its charts from the records in docs/bench.
 *   build/bench/page docs/bench docs
 *
 * A record is a JSON object with machine, commit, date and command, and either a table (section,
 * title, columns, rows; optionally notes and chart) or the output of `foretoken bench --json`.
 * Records are read in the order of their file names. intro.md comes first as it is. */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/plot.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { PAGE_MAX = 4 << 20, RECORD_MAX = 4 << 20, RECORDS_MAX = 500, WIDTH = 100 };

typedef struct page {
    const char *out; /* folder of bench.md; charts go into its img/ */
    ft_buf text;
    char section[120];
    bool bench_head; /* the table of `foretoken bench --json` records has begun */
    bool spec_head;  /* the same for --spec */
} page;

/* ---- records ---- */

/* The text of a key that every record needs; machine may also be the object of bench --json. */
static const char *need(const json_t *j, const char *file, const char *key, const char *want,
                        ft_err *err)
{
    const char *s = json_string_value(json_object_get(j, key));
    if (!s || !*s) ft_fail(err, FT_EFORMAT, "%s: no text for \"%s\", want %s", file, key, want);
    return s && *s ? s : NULL;
}

/* "" where there is no text. */
static const char *text_of(const json_t *j)
{
    const char *s = json_string_value(j);
    return s ? s : "";
}

static const char *text_at(const json_t *j, const char *key)
{
    return text_of(json_object_get(j, key));
}

/* An array of texts, or NULL. */
static bool all_texts(const json_t *array)
{
    for (size_t i = 0; i < json_array_size(array); i++)
        if (!json_is_string(json_array_get(array, i))) return false;
    return true;
}

static bool is_date(const char *s)
{
    for (int i = 0; i < 10; i++) {
        const bool dash = i == 4 || i == 7;
        if (dash ? s[i] != '-' : (s[i] < '0' || s[i] > '9')) return false;
    }
    return !s[10];
}

static ft_status check_record(const json_t *j, const char *file, ft_err *err)
{
    if (!json_is_object(j)) return ft_fail(err, FT_EFORMAT, "%s: want a JSON object", file);
    if (!json_is_object(json_object_get(j, "machine")) &&
        !need(j, file, "machine", "the machine in words", err))
        return FT_EFORMAT;
    if (!need(j, file, "commit", "the commit that was measured", err)) return FT_EFORMAT;
    if (!need(j, file, "command", "the command that measured it", err)) return FT_EFORMAT;
    const char *date = need(j, file, "date", "YYYY-MM-DD", err);
    if (!date) return FT_EFORMAT;
    if (!is_date(date))
        return ft_fail(err, FT_EFORMAT, "%s: date is \"%.40s\", want YYYY-MM-DD", file, date);
    if (json_object_get(j, "decode_tps") || json_object_get(j, "classes")) return FT_OK;
    if (!need(j, file, "machine", "the machine in words", err) ||
        !need(j, file, "section", "a heading", err) || !need(j, file, "title", "a heading", err))
        return FT_EFORMAT;
    const json_t *columns = json_object_get(j, "columns"), *rows = json_object_get(j, "rows");
    if (!json_array_size(columns) || !json_array_size(rows))
        return ft_fail(err, FT_EFORMAT, "%s: want arrays \"columns\" and \"rows\"", file);
    if (!all_texts(columns) || !all_texts(json_object_get(j, "notes")) ||
        !all_texts(json_object_get(json_object_get(j, "chart"), "series")))
        return ft_fail(err, FT_EFORMAT, "%s: want texts in \"columns\", \"notes\" and \"series\"",
                       file);
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (json_array_size(json_array_get(rows, i)) != json_array_size(columns))
            return ft_fail(err, FT_EFORMAT, "%s: row %zu has %zu cells, want %zu", file, i,
                           json_array_size(json_array_get(rows, i)), json_array_size(columns));
    return FT_OK;
}

/* ---- text ---- */

/* A paragraph, wrapped. Code between backquotes is kept on one line. */
static void put_paragraph(ft_buf *b, const char *s)
{
    int column = 0;
    while (*s) {
        size_t n = 0;
        bool code = false;
        for (; s[n] && (code || s[n] != ' '); n++)
            if (s[n] == '`') code = !code;
        if (column && column + 1 + (int)n > WIDTH) {
            ft_buf_putc(b, '\n');
            column = 0;
        } else if (column) {
            ft_buf_putc(b, ' ');
            column++;
        }
        ft_buf_put(b, s, n);
        column += (int)n;
        s += n;
        while (*s == ' ') s++;
    }
    ft_buf_puts(b, "\n\n");
}

static void put_cell(ft_buf *b, const json_t *c)
{
    if (json_is_string(c))
        ft_buf_puts(b, json_string_value(c));
    else if (json_is_number(c))
        ft_buf_printf(b, "%.10g", json_number_value(c));
}

static void put_row(ft_buf *b, const json_t *row)
{
    ft_buf_putc(b, '|');
    for (size_t i = 0; i < json_array_size(row); i++) {
        ft_buf_putc(b, ' ');
        put_cell(b, json_array_get(row, i));
        ft_buf_puts(b, " |");
    }
    ft_buf_putc(b, '\n');
}

static void put_rule(ft_buf *b, size_t n)
{
    ft_buf_putc(b, '|');
    for (size_t i = 0; i < n; i++) ft_buf_puts(b, "---|");
    ft_buf_putc(b, '\n');
}

/* One text or an array of them, a paragraph each. */
static void put_notes(ft_buf *b, const json_t *notes)
{
    if (json_is_string(notes)) put_paragraph(b, json_string_value(notes));
    for (size_t i = 0; i < json_array_size(notes); i++)
        put_paragraph(b, json_string_value(json_array_get(notes, i)));
}

/* ---- charts ---- */

static int column_of(const json_t *columns, const char *name)
{
    for (size_t i = 0; i < json_array_size(columns); i++)
        if (!strcmp(json_string_value(json_array_get(columns, i)), name)) return (int)i;
    return -1;
}

/* chart: {"title", "unit", "group": column of the labels, "series": columns of the bars,
 * "rows": indices of the rows to draw, all where absent}. */
static ft_status draw_chart(const page *p, const json_t *j, const char *file, const char *svg,
                            ft_err *err)
{
    const json_t *chart = json_object_get(j, "chart"), *columns = json_object_get(j, "columns");
    const json_t *rows = json_object_get(j, "rows"), *only = json_object_get(chart, "rows");
    const json_t *series = json_object_get(chart, "series");
    const char *group = text_at(chart, "group");
    const int at = column_of(columns, group);
    ft_bars bars = {.title = need(chart, file, "title", "a title for the chart", err),
                    .unit = need(chart, file, "unit", "the unit of the chart", err)};
    if (!bars.title || !bars.unit) return FT_EFORMAT;
    if (at < 0)
        return ft_fail(err, FT_EFORMAT, "%s: chart group \"%.60s\" is no column", file, group);
    for (size_t s = 0; s < json_array_size(series) && s < FT_BARS_SERIES; s++)
        bars.series[bars.n_series++] = json_string_value(json_array_get(series, s));
    const size_t n = only ? json_array_size(only) : json_array_size(rows);
    for (size_t g = 0; g < n && g < FT_BARS_GROUPS; g++) {
        const size_t r = only ? (size_t)json_integer_value(json_array_get(only, g)) : g;
        const json_t *row = json_array_get(rows, r);
        bars.group[g] = json_string_value(json_array_get(row, (size_t)at));
        if (!bars.group[g])
            return ft_fail(err, FT_EFORMAT, "%s: row %zu has no label for the chart", file, r);
        bars.n_group++;
        for (int s = 0; s < bars.n_series; s++) {
            const int c = column_of(columns, bars.series[s]);
            if (c < 0)
                return ft_fail(err, FT_EFORMAT, "%s: chart series \"%.60s\" is no column", file,
                               bars.series[s]);
            const json_t *v = json_array_get(row, (size_t)c);
            bars.value[g][s] = json_is_number(v) ? json_number_value(v) : -1;
        }
    }
    char path[1200];
    snprintf(path, sizeof path, "%s/img/%s", p->out, svg);
    return ft_bars_write(&bars, path, err);
}

/* ---- the page ---- */

static void put_section(page *p, const char *name)
{
    if (!strcmp(p->section, name)) return;
    snprintf(p->section, sizeof p->section, "%s", name);
    ft_buf_printf(&p->text, "## %s\n\n", name);
}

/* A code block: one line for each command, and long ones continued with a backslash. */
static void put_command(ft_buf *b, const char *text)
{
    size_t column = 4;
    ft_buf_puts(b, "    ");
    while (*text) {
        const size_t n = strcspn(text, " ");
        const bool last = n && text[n - 1] == ';';
        if (column > 8 && column + n > WIDTH - 2) {
            ft_buf_puts(b, "\\\n        ");
            column = 8;
        }
        ft_buf_put(b, text, last ? n - 1 : n);
        column += n + 1;
        text += n + strspn(text + n, " ");
        if (*text) ft_buf_puts(b, last ? "\n    " : " ");
        if (last) column = 4;
    }
    ft_buf_puts(b, "\n\n");
}

static ft_status put_table(page *p, const json_t *j, const char *file, ft_err *err)
{
    ft_buf *b = &p->text;
    char svg[300];
    put_section(p, text_at(j, "section"));
    ft_buf_printf(b, "### %s\n\n", text_at(j, "title"));
    if (json_object_get(j, "chart")) {
        snprintf(svg, sizeof svg, "bench-%.*s.svg", (int)(strlen(file) - 5), file);
        const ft_status st = draw_chart(p, j, file, svg, err);
        if (st) return st;
        ft_buf_printf(b, "![%s](img/%s)\n\n", text_at(json_object_get(j, "chart"), "title"), svg);
    }
    put_row(b, json_object_get(j, "columns"));
    put_rule(b, json_array_size(json_object_get(j, "columns")));
    for (size_t i = 0; i < json_array_size(json_object_get(j, "rows")); i++)
        put_row(b, json_array_get(json_object_get(j, "rows"), i));
    ft_buf_putc(b, '\n');
    put_notes(b, json_object_get(j, "notes"));
    char line[2000];
    snprintf(line, sizeof line, "Machine: %s. Recorded %s, commit %s.", text_at(j, "machine"),
             text_at(j, "date"), text_at(j, "commit"));
    put_paragraph(b, line);
    put_command(b, text_at(j, "command"));
    return FT_OK;
}

/* The output of `foretoken bench --json`: one row. */
static void put_bench(page *p, const json_t *j)
{
    const json_t *machine = json_object_get(j, "machine"), *model = json_object_get(j, "model");
    put_section(p, "foretoken bench --json");
    if (!p->bench_head)
        ft_buf_puts(&p->text,
                    "| model | machine | threads | prompt, tokens/s | decode, tokens/s | "
                    "of memory bandwidth | date | commit |\n|---|---|---|---|---|---|---|---|\n");
    p->bench_head = true;
    const char *device = text_at(machine, "device");
    const char *cpu = text_at(machine, "cpu");
    ft_buf_printf(&p->text, "| %s | %s, %s | %d | %.5g | %.5g | %.0f %% | %s | %s |\n",
                  text_at(model, "name"), cpu, device,
                  (int)json_integer_value(json_object_get(machine, "threads")),
                  json_number_value(json_object_get(j, "prompt_tps")),
                  json_number_value(json_object_get(j, "decode_tps")),
                  json_number_value(json_object_get(j, "memory_percent")), text_at(j, "date"),
                  text_at(j, "commit"));
}

/* The output of `foretoken bench --spec --json`: a row for each class of prompts, with the ways of
 * drafting "off" and "governed", which are the first two. */
static void put_spec(page *p, const json_t *j)
{
    const json_t *machine = json_object_get(j, "machine"), *model = json_object_get(j, "model");
    const char *class;
    json_t *ways;
    put_section(p, "foretoken bench --spec --json");
    if (!p->spec_head)
        ft_buf_puts(&p->text, "| model | machine | threads | prompts | without drafts, tokens/s | "
                              "adaptive, tokens/s | ratio | spread | date | commit |\n"
                              "|---|---|---|---|---|---|---|---|---|---|\n");
    p->spec_head = true;
    json_object_foreach(json_object_get(j, "classes"), class, ways)
    {
        const json_t *off = json_array_get(ways, 0), *on = json_array_get(ways, 1);
        ft_buf_printf(&p->text,
                      "| %s | %s, %s | %d | %s | %.5g | %.5g | %.3f | %.1f %% | %s | %s |\n",
                      text_at(model, "name"), text_at(machine, "cpu"), text_at(machine, "device"),
                      (int)json_integer_value(json_object_get(machine, "threads")), class,
                      json_number_value(json_object_get(off, "tokens_per_second")),
                      json_number_value(json_object_get(on, "tokens_per_second")),
                      json_number_value(json_object_get(on, "against_off")),
                      100 * json_number_value(json_object_get(on, "spread")), text_at(j, "date"),
                      text_at(j, "commit"));
    }
}

static ft_status add_record(page *p, const char *folder, const char *file, ft_err *err)
{
    char path[1200], *text;
    size_t n;
    json_error_t where;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    ft_status st = ft_file_read(&text, &n, path, RECORD_MAX, err);
    if (st) return st;
    json_t *j = json_loadb(text, n, 0, &where);
    ft_free(text);
    if (!j)
        return ft_fail(err, FT_EFORMAT, "%s: line %d is no JSON: %s", file, where.line, where.text);
    st = check_record(j, file, err);
    if (!st && json_object_get(j, "decode_tps"))
        put_bench(p, j);
    else if (!st && json_object_get(j, "classes"))
        put_spec(p, j);
    else if (!st)
        st = put_table(p, j, file, err);
    json_decref(j);
    return st;
}

static int is_record(const struct dirent *d)
{
    const size_t n = strlen(d->d_name);
    return n > 5 && n < 200 && d->d_name[0] != '.' && !strcmp(d->d_name + n - 5, ".json");
}

static ft_status write_page(page *p, const char *folder, ft_err *err)
{
    char path[1200], *intro = NULL;
    size_t n;
    struct dirent **file;
    const int count = scandir(folder, &file, is_record, alphasort);
    if (count < 0) return ft_fail_errno(err, "%s: cannot be listed", folder);
    ft_status st = FT_OK;
    if (count == 0 || count > RECORDS_MAX)
        st = ft_fail(err, FT_ELIMIT, "%s: %d records, want 1 to %d", folder, count, RECORDS_MAX);
    snprintf(path, sizeof path, "%s/intro.md", folder);
    if (!st) st = ft_file_read(&intro, &n, path, RECORD_MAX, err);
    if (!st) ft_buf_put(&p->text, intro, n);
    ft_free(intro);
    for (int i = 0; i < count; i++) {
        if (!st) st = add_record(p, folder, file[i]->d_name, err);
        free(file[i]);
    }
    free(file);
    if (st) return st;
    while (p->text.len > 1 && p->text.data[p->text.len - 2] == '\n') p->text.len--;
    snprintf(path, sizeof path, "%s/bench.md", p->out);
    ft_out_file *out;
    st = ft_out_open(&out, path, err);
    if (st) return st;
    ft_out_write(out, p->text.data, p->text.len);
    return ft_out_commit(out, err);
}

int main(int argc, char **argv)
{
    ft_err err;
    if (argc != 3) return fprintf(stderr, "usage: page RECORDS OUT\n"), 2;
    page p = {.out = argv[2]};
    char img[1200];
    snprintf(img, sizeof img, "%s/img", p.out);
    mkdir(img, 0777);
    ft_buf_init(&p.text, PAGE_MAX);
    const ft_status st = write_page(&p, argv[1], &err);
    ft_buf_release(&p.text);
    return st ? fprintf(stderr, "page: %s\n", err.text), 1 : 0;
}
