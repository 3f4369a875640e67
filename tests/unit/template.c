/* tests/unit/template.c - chat templates: recorded outputs of the reference implementation, invalid
 * templates, limits, threads. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "text/jinja.h"

#include "unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define CASES "tests/data/template/cases.jsonl"

/* The prompt (the caller frees it with ft_free), or NULL with the message in err. */
static char *render(const char *source, size_t n, const json_t *vars, ft_err *err)
{
    ft_jinja *t;
    ft_buf b;
    if (ft_jinja_new(&t, (ft_str){source, n}, err)) return NULL;
    ft_buf_init(&b, (size_t)1 << 20);
    char *z = NULL;
    if (!ft_jinja_render(t, vars, NULL, &b, err)) {
        ft_buf_putc(&b, 0);
        z = ft_buf_take(&b);
    }
    ft_buf_release(&b);
    ft_jinja_free(t);
    return z;
}

static void check_case(const json_t *c, const json_t *vars, int *wrong)
{
    const json_t *source = json_object_get(c, "template"), *want = json_object_get(c, "want");
    ft_err err;
    char *got = render(json_string_value(source), json_string_length(source), vars, &err);
    if (want ? !got || strcmp(got, json_string_value(want)) : got != NULL) {
        print_error("template: %s\nwant: %s\ngot:  %s\n", json_string_value(source),
                    want ? json_string_value(want) : "(an error)", got ? got : err.text);
        ++*wrong;
    }
    if (!got) assert_non_null(strstr(err.text, "line "));
    ft_free(got);
}

static void recorded_cases_render_as_the_reference(void **state)
{
    (void)state;
    char *text;
    size_t n;
    ft_err err;
    assert_int_equal(ft_file_read(&text, &n, CASES, 1 << 20, &err), FT_OK);
    json_t *vars = NULL;
    int wrong = 0, count = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *c = json_loads(line, JSON_ALLOW_NUL, NULL);
        assert_non_null(c);
        if (!vars) {
            vars = json_incref(json_object_get(c, "vars"));
        } else {
            check_case(c, vars, &wrong);
            count++;
        }
        json_decref(c);
    }
    json_decref(vars);
    ft_free(text);
    assert_true(count > 400);
    assert_int_equal(wrong, 0);
}

/* Each stops with an error within the limits. */
static void endless_templates_are_stopped(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(n) %}{{ n }}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ 1 }}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% set x = b %}{% endfor %}"
        "{% endfor %}",
        "{% set ns = namespace(s='x') %}{% for a in range(99) %}{% set ns.s = ns.s + ns.s %}"
        "{% endfor %}{{ ns.s }}",
        "{{ 'x' * 9999999999 }}",
        "{{ [1] * 9999999999 }}",
        "{{ 'x' * 99999999 }}",
        "{% set l = [1] %}{% for a in range(99) %}{% set _ = l.extend(l) %}{% endfor %}",
        "{% set ns = namespace(l=[]) %}{% for a in range(99999) %}{% set ns.l = [ns.l] %}"
        "{% endfor %}{{ ns.l }}",
        "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}",
        "{% set l = [] %}{% set _ = l.append(l) %}{{ l | tojson }}",
        "{% set l = [] %}{% set _ = l.append(l) %}{% set k = [] %}{% set _ = k.append(k) %}"
        "{{ l == k }}",
        "{{ range(10 ** 9) | list }}",
        "{{ 9223372036854775807 + 1 }}",
        "{{ -9223372036854775807 - 1 - 1 }}",
        "{{ (-9223372036854775807 - 1) // -1 }}",
        "{{ 3 ** 99 }}",
        "{{ 'x' | center(99999999999) }}",
        "{{ '%9999999999d' % 1 }}",
        "{{ 99999999999999999999 }}",
        "{{ 'abc' | indent(99999999999) }}",
    };
    json_t *vars = json_object();
    for (size_t i = 0; i < FT_COUNT(sources); i++) {
        const ft_jinja_limits small = {3000000, (size_t)32 << 20, (size_t)1 << 20};
        ft_jinja *t = NULL;
        ft_buf b;
        ft_err err;
        ft_buf_init(&b, (size_t)8 << 20);
        const int64_t start = ft_now_ns();
        ft_status st = ft_jinja_new(&t, ft_str_of(sources[i]), &err);
        if (!st) st = ft_jinja_render(t, vars, &small, &b, &err);
        if (!st) print_error("not stopped: %s\n", sources[i]);
        assert_int_not_equal(st, FT_OK);
        assert_int_equal(b.len, 0);
        assert_true(ft_now_ns() - start < (int64_t)20e9);
        ft_buf_release(&b);
        ft_jinja_free(t);
    }
    json_decref(vars);
}

static char *repeated(const char *part, int n, const char *tail)
{
    ft_buf b;
    ft_buf_init(&b, (size_t)8 << 20);
    for (int i = 0; i < n; i++) ft_buf_puts(&b, part);
    ft_buf_puts(&b, tail);
    return ft_buf_take(&b);
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "{{ (",        "{{ [",
        "{% if 1 %}",  "{% for a in [1] %}",
        "{{ -",        "{{ {1:",
        "{{ a[",       "{{ f(",
        "{{ not ",     "{{ 1 if 1 else ",
        "{{ a is eq ", "{{ a.b",
        "{{ 1 + ",     "{% set (",
        "{{ a|e ",     "{{ x ~ ",
        "{{ x ** ",
    };
    json_t *vars = json_object();
    for (size_t i = 0; i < FT_COUNT(parts); i++) {
        ft_err err;
        const bool tag = parts[i][1] == '%' && parts[i][4] != 'e';
        char *rest = repeated(tag ? parts[i] : parts[i] + 3, 20000, " }}");
        ft_buf b;
        ft_buf_init(&b, (size_t)8 << 20);
        if (!tag) ft_buf_put(&b, parts[i], 3);
        ft_buf_puts(&b, rest);
        char *got = render(b.data, b.len, vars, &err);
        assert_null(got);
        ft_buf_release(&b);
        ft_free(rest);
    }
    json_decref(vars);
}

static void errors_name_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *source, *part;
    } cases[] = {
        {"a\nb\n{{ x.y }}", "line 3: 'x' is undefined"},
        {"a\n{% if %}", "line 2"},
        {"\n\n{{ raise_exception('too bad') }}", "line 3: raised by the template: too bad"},
        {"{% include 'a' %}", "line 1: the tag 'include' is not supported"},
        {"{% if true %}\n\n", "line 1: the block that starts here has no 'endif'"},
        {"{{ 1 | nope }}", "no filter 'nope'"},
        {"{{ none.x.y }}", "'x' is undefined"},
        {"{{ 'a' + 1 }}", "operator '+' is not defined for str and int"},
    };
    json_t *vars = json_object();
    for (size_t i = 0; i < FT_COUNT(cases); i++) {
        ft_err err;
        assert_null(render(cases[i].source, strlen(cases[i].source), vars, &err));
        if (!strstr(err.text, cases[i].part)) print_error("%s\n", err.text);
        assert_non_null(strstr(err.text, cases[i].part));
    }
    ft_err err;
    assert_null(render("a\xff", 2, vars, &err));
    json_decref(vars);
    json_t *list = json_array();
    ft_jinja *t;
    ft_buf b;
    ft_buf_init(&b, 100);
    assert_int_equal(ft_jinja_new(&t, FT_STR("x"), &err), FT_OK);
    assert_int_equal(ft_jinja_render(t, list, NULL, &b, &err), FT_EINVAL);
    ft_jinja_free(t);
    json_decref(list);
}

static void time_is_formatted(void **state)
{
    (void)state;
    json_t *vars = json_object();
    ft_err err;
    const char *source = "{{ strftime_now('%Y-%m-%d') | length }} {{ strftime_now('') }}";
    char *got = render(source, strlen(source), vars, &err);
    assert_string_equal(got, "10 ");
    ft_free(got);
    json_decref(vars);
}

/* ---- one template, many threads ---- */

typedef struct job {
    const ft_jinja *t;
    int number;
    bool ok;
} job;

static void *render_many(void *p)
{
    job *j = p;
    j->ok = true;
    for (int i = 0; i < 200; i++) {
        ft_buf b;
        char want[64];
        json_t *vars = json_pack("{s:i}", "n", j->number + i);
        ft_buf_init(&b, 1000);
        j->ok &= ft_jinja_render(j->t, vars, NULL, &b, NULL) == FT_OK;
        snprintf(want, sizeof want, "<%d><%d>", j->number + i, j->number + i + 1);
        j->ok &= !strcmp(ft_buf_z(&b), want);
        ft_buf_release(&b);
        json_decref(vars);
    }
    return NULL;
}

static void many_threads_render_one_template(void **state)
{
    (void)state;
    ft_jinja *t;
    const char *source = "{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(n) }}{{ f(n + 1) }}";
    assert_int_equal(ft_jinja_new(&t, ft_str_of(source), NULL), FT_OK);
    pthread_t thread[4];
    job jobs[4];
    for (int i = 0; i < 4; i++) {
        jobs[i] = (job){t, i * 1000, false};
        assert_int_equal(pthread_create(&thread[i], NULL, render_many, &jobs[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        assert_true(jobs[i].ok);
    }
    ft_jinja_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_cases_render_as_the_reference),
        cmocka_unit_test(endless_templates_are_stopped),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(errors_name_the_line),
        cmocka_unit_test(time_is_formatted),
        cmocka_unit_test(many_threads_render_one_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
