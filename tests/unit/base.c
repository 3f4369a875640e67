/* tests/unit/base.c - src/base: numbers, strings, buffers, files, threads. */
#define _GNU_SOURCE
#include "base/buf.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/dict.h"
#include "base/file.h"
#include "base/half.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "base/type.h"
#include "base/utf8.h"

#include "folder.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a file contains cannot write lines of a log or commands of a terminal. */
static void messages_have_no_control_characters(void **state)
{
    (void)state;
    ft_err err;
    assert_int_equal(ft_fail(&err, FT_EFORMAT, "type \"%s\"", "a\nb\x1b[2J\x7f \xc3\xa9"),
                     FT_EFORMAT);
    assert_string_equal(err.text, "type \"a?b?[2J? \xc3\xa9\"");
    ft_err_prefix(&err, "%s", "x\ry");
    assert_string_equal(err.text, "x?y: type \"a?b?[2J? \xc3\xa9\"");
    errno = ENOENT;
    ft_fail_errno(&err, "%s", "a\tb");
    assert_string_equal(err.text, "a?b: No such file or directory");
}

static void f16_round_trips_every_value(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const float x = ft_f16_to_f32((uint16_t)h);
        if (isnan(x))
            assert_true(isnan(ft_f16_to_f32(ft_f32_to_f16(x))));
        else
            assert_int_equal(ft_f32_to_f16(x), h);
    }
}

static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    ft_rng r = {7};
    for (int i = 0; i < 200000; i++) {
        const float x = (float)ldexp(ft_rng_f64(&r) * 2 - 1, (int)(ft_rng_u64(&r) % 44) - 28);
        const uint16_t h = ft_f32_to_f16(x);
        const double got = (double)ft_f16_to_f32(h);
        if (isinf(got)) {
            assert_true(fabs((double)x) >= 65520);
            continue;
        }
        for (int step = -1; step <= 1; step += 2) {
            const double other = (double)ft_f16_to_f32((uint16_t)(h + step));
            if (isnan(other) || isinf(other)) continue;
            const double mine = fabs(got - (double)x), theirs = fabs(other - (double)x);
            assert_true(mine < theirs || (mine == theirs && !(h & 1)) || got == other);
        }
    }
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    assert_int_equal(ft_f32_to_bf16(1.0f), 0x3f80);
    assert_int_equal(ft_f32_to_bf16(ft_f32_of_bits(0x3f808000)), 0x3f80); /* tie to even */
    assert_int_equal(ft_f32_to_bf16(ft_f32_of_bits(0x3f818000)), 0x3f82);
    assert_int_equal(ft_f32_to_bf16(INFINITY), 0x7f80);
    assert_true(isnan(ft_bf16_to_f32(ft_f32_to_bf16(ft_f32_of_bits(0x7f800001)))));
}

static void utf8_accepts_and_rejects(void **state)
{
    (void)state;
    assert_true(ft_utf8_valid(FT_STR("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80")));
    static const char *const bad[] = {
        "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80", "\xe2\x82", "\xff", "\xc3("};
    for (size_t i = 0; i < FT_COUNT(bad); i++) assert_false(ft_utf8_valid(ft_str_of(bad[i])));
    for (uint32_t c = 0; c < 0x110000; c += 7) {
        if (c >= 0xD800 && c < 0xE000) continue;
        char b[4];
        int len;
        const int n = ft_utf8_encode(c, b);
        assert_int_equal(ft_utf8_decode(b, (size_t)n, &len), c);
        assert_int_equal(len, n);
        for (int cut = 1; cut < n; cut++)
            assert_int_equal(ft_utf8_partial((ft_str){b, (size_t)cut}), cut);
        assert_int_equal(ft_utf8_partial((ft_str){b, (size_t)n}), 0);
    }
}

static void numbers_are_parsed_strictly(void **state)
{
    (void)state;
    int64_t i = -1;
    double f = -1;
    assert_true(ft_parse_i64("42", 0, 100, &i) && i == 42);
    assert_false(ft_parse_i64("42x", 0, 100, &i) || ft_parse_i64("", 0, 100, &i) ||
                 ft_parse_i64(" 4", 0, 100, &i) || ft_parse_i64("101", 0, 100, &i) ||
                 ft_parse_i64("99999999999999999999", 0, 100, &i));
    assert_true(ft_parse_f64("0.5", 0, 1, &f) && f == 0.5);
    assert_false(ft_parse_f64("nan", 0, 1, &f) || ft_parse_f64("inf", 0, 1, &f) ||
                 ft_parse_f64("0.5.5", 0, 1, &f) || ft_parse_f64("1e999", 0, 1, &f));
}

static void buffer_stops_at_its_maximum(void **state)
{
    (void)state;
    ft_buf b;
    ft_buf_init(&b, 10);
    ft_buf_puts(&b, "12345");
    ft_buf_printf(&b, "%d", 67890);
    assert_false(b.full);
    ft_buf_putc(&b, 'x');
    assert_true(b.full);
    assert_string_equal(ft_buf_z(&b), "1234567890");
    ft_buf_release(&b);
}

/* Addresses of large blocks of memory end with many zero bits. */
static void aligned_addresses_have_different_hashes(void **state)
{
    (void)state;
    for (int shift = 4; shift < 24; shift++) {
        uint64_t taken = 0;
        int n = 0;
        for (uintptr_t i = 1; i <= 32; i++)
            taken |= (uint64_t)1 << ft_hash_address((const void *)(i << shift), 6);
        for (; taken; taken &= taken - 1) n++;
        assert_in_range(n, 18, 32); /* random numbers: 25 */
    }
    assert_in_range(ft_hash_address("x", 9), 0, 511);
}

static void dict_finds_what_was_put(void **state)
{
    (void)state;
    enum { N = 5000 };
    static char key[N][16];
    ft_dict d;
    ft_dict_init(&d);
    for (uint32_t i = 0; i < N; i++) {
        snprintf(key[i], sizeof key[i], "key.%u", i);
        assert_true(ft_dict_put(&d, ft_str_of(key[i]), i));
    }
    assert_false(ft_dict_put(&d, FT_STR("key.77"), 1));
    for (uint32_t i = 0; i < N; i++) {
        uint32_t v;
        assert_true(ft_dict_find(&d, ft_str_of(key[i]), &v));
        assert_int_equal(v, i);
    }
    assert_false(ft_dict_find(&d, FT_STR("key.5000"), NULL));
    ft_dict_release(&d);
}

static void output_file_appears_only_when_complete(void **state)
{
    (void)state;
    char dir[64], path[80];
    folder_new(dir);
    snprintf(path, sizeof path, "%s/out", dir);
    ft_err err;
    ft_out_file *o;
    assert_int_equal(ft_out_open(&o, path, &err), FT_OK);
    ft_out_write(o, "lost", 4);
    assert_false(ft_file_exists(path));
    ft_out_abort(o);
    assert_false(ft_file_exists(path));

    assert_int_equal(ft_out_open(&o, path, &err), FT_OK);
    ft_out_write(o, "header--", 8);
    ft_out_grow(o, 4);
    ft_out_write(o, "!", 1);
    ft_out_write_at(o, 8, "data", 4);
    assert_int_equal(ft_out_size(o), 13);
    assert_int_equal(ft_out_commit(o, &err), FT_OK);
    char *p;
    size_t n;
    assert_int_equal(ft_file_read(&p, &n, path, 100, &err), FT_OK);
    assert_string_equal(p, "header--data!");
    ft_free(p);
    assert_int_equal(ft_file_read(&p, &n, path, 5, &err), FT_ELIMIT);

    assert_int_equal(ft_out_open(&o, dir, &err), FT_EINVAL);
    assert_int_equal(ft_out_open(&o, "/nonexistent/dir/x", &err), FT_EIO);
    ft_map m;
    assert_int_equal(ft_map_open(&m, dir, true, &err), FT_EINVAL);
    unlink(path);
    assert_int_equal(rmdir(dir), 0); /* nothing else was left there */
}

static unsigned mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 0777;
}

/* Modes follow the umask, or do not, and the umask is never touched: another thread would see it.
 */
static void private_files(void **state)
{
    (void)state;
    char dir[64], path[300], folder[100], part[300];
    ft_err err;
    ft_out_file *o;
    ft_map m;
    folder_new(dir);
    snprintf(folder, sizeof folder, "%s/private", dir);
    snprintf(path, sizeof path, "%s/out", folder);
    const mode_t mask = umask(027);
    assert_int_equal(ft_folder_private(folder, &err), FT_OK);
    assert_int_equal(mode_of(folder), 0700);
    assert_int_equal(ft_out_open(&o, path, &err), FT_OK);
    assert_int_equal(ft_out_commit(o, &err), FT_OK);
    assert_int_equal(mode_of(path), 0640);
    assert_int_equal(ft_out_open_private(&o, path, &err), FT_OK);
    ft_out_write(o, "new", 3);
    assert_int_equal(ft_out_commit(o, &err), FT_OK);
    assert_int_equal(mode_of(path), 0600);
    assert_int_equal(umask(mask), 027);
    /* links: one in the way is replaced, one that is read is refused */
    unlink(path);
    assert_int_equal(symlink("/etc/hostname", path), 0);
    assert_int_equal(ft_map_open_private(&m, path, &err), FT_EIO);
    assert_int_equal(ft_out_open_private(&o, path, &err), FT_OK);
    assert_int_equal(ft_out_commit(o, &err), FT_OK);
    assert_int_equal(mode_of(path), 0600);
    /* what an interrupted writer left goes; what is new, or still being written, stays */
    static const char *const name[] = {"a.abc123.part", "b.abc123.part", "c.prefix"};
    const struct timespec old[2] = {{1000, 0}, {1000, 0}};
    for (int i = 0; i < 3; i++) {
        snprintf(part, sizeof part, "%s/%s", folder, name[i]);
        close(open(part, O_CREAT | O_WRONLY, 0600));
        if (i != 1) utimensat(AT_FDCWD, part, old, 0);
    }
    assert_int_equal(ft_out_open_private(&o, path, &err), FT_OK);
    ft_out_sweep(folder);
    for (int i = 0; i < 3; i++) {
        snprintf(part, sizeof part, "%s/%s", folder, name[i]);
        assert_int_equal(ft_file_exists(part), i > 0);
    }
    assert_int_equal(ft_out_commit(o, &err), FT_OK);
    assert_int_equal(folder_free(dir), 0);
}

/* In a process of its own: what is broken stays broken. 0: as it should be. */
static int read_after_cut(const char *path, bool cut)
{
    ft_map m;
    ft_err err;
    ft_map_guard();
    if (ft_map_open(&m, path, true, &err) || !m.mapped || ft_map_broken()) return 1;
    ft_map_check();
    if (ft_map_broken() || m.data[40000] != 'x') return 2;
    if (cut && truncate(path, 5000)) return 3;
    if (cut && (m.data[100] != 'x' || m.data[40000] != 0 || m.data[65535] != 0)) return 4;
    if (!cut) {
        FILE *f = fopen(path, "r+b");
        if (!f || fputc('y', f) != 'y' || fclose(f)) return 5;
        ft_map_check();
    }
    return ft_map_broken() && !strcmp(ft_map_broken(), path) ? 0 : 6;
}

/* A file that is cut off, or written to, while it is mapped. */
static void maps_that_change(void **state)
{
    (void)state;
    char dir[64], path[80], text[65536];
    folder_new(dir);
    snprintf(path, sizeof path, "%s/map", dir);
    memset(text, 'x', sizeof text);
    for (int cut = 0; cut < 2; cut++) {
        FILE *f = fopen(path, "wb");
        assert_true(f && fwrite(text, 1, sizeof text, f) == sizeof text && !fclose(f));
        const struct timespec old[2] = {{1000, 0}, {1000, 0}};
        utimensat(AT_FDCWD, path, old, 0);
        const pid_t child = fork();
        if (!child) _exit(read_after_cut(path, cut));
        int status;
        assert_true(child > 0 && waitpid(child, &status, 0) == child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_int_equal(folder_free(dir), 0);
}

static void full_disks(void **state)
{
    (void)state;
    ft_err err;
    errno = ENOSPC;
    assert_int_equal(ft_fail_errno(&err, "x"), FT_ENOSPC);
    errno = EDQUOT;
    assert_int_equal(ft_fail_errno(&err, "x"), FT_ENOSPC);
    errno = EACCES;
    assert_int_equal(ft_fail_errno(&err, "x"), FT_EIO);
}

typedef struct counts {
    ft_pool *pool;
    atomic_int before, wrong, items;
} counts;

static void barrier_twice(void *arg, int thread, int threads)
{
    counts *c = arg;
    (void)thread;
    for (int round = 1; round <= 3; round++) {
        atomic_fetch_add(&c->before, 1);
        ft_pool_barrier(c->pool);
        if (atomic_load(&c->before) < round * threads) atomic_fetch_add(&c->wrong, 1);
        ft_pool_barrier(c->pool);
    }
}

static void count_item(void *arg, size_t i)
{
    (void)i;
    atomic_fetch_add(&((counts *)arg)->items, 1);
}

static void pool_runs_all_items_and_barriers(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++) {
        ft_pool *p = ft_pool_new(n, 1);
        for (int i = 0; i < 300; i++) {
            counts c = {.pool = p};
            ft_pool_run(p, barrier_twice, &c);
            assert_int_equal(c.wrong, 0);
            assert_int_equal(c.before, 3 * ft_pool_threads(p));
            ft_pool_each(p, 17, count_item, &c);
            assert_int_equal(c.items, 17);
            if (i % 100 == 0) usleep(2000); /* long enough for the workers to sleep */
        }
        ft_pool_free(p);
    }
}

static void type_table_is_consistent(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < FT_TYPE_MAX; i++) {
        const ft_type_info *t = ft_type_of(i);
        ft_type back;
        if (!t->name) {
            assert_non_null(t->note);
            continue;
        }
        assert_true(t->elems > 0 && t->bytes > 0);
        assert_true(ft_type_find(ft_str_of(t->name), &back));
        if (i != FT_Q2_0_FORK) assert_int_equal(back, i);
    }
    assert_null(ft_type_of(4)->name);
    assert_null(ft_type_of(1000)->name);
    assert_int_equal(ft_type_row(FT_Q4_K, 512), 288);
}

static void subnormals(void **state)
{
    (void)state;
    volatile float least = 0x1p-126f, half = 0.5f;
    const float before = least * half;
    const unsigned mode = ft_flush_subnormals();
    const float flushed = least * half;
    ft_restore_float_mode(mode);
    const float after = least * half;
    assert_true(before == 0x1p-127f && after == before);
#ifdef __x86_64__
    assert_true(flushed == 0);
#else
    assert_true(flushed == before);
#endif
}

static void deadlines(void **state)
{
    (void)state;
    for (int ms = 0; ms < 4000; ms += 333) {
        const int64_t before = ft_now_ns();
        const struct timespec t = ft_deadline(CLOCK_MONOTONIC, ms);
        const int64_t at = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
        assert_in_range(t.tv_nsec, 0, 999999999);
        assert_in_range(at, before + ms * INT64_C(1000000), ft_now_ns() + ms * INT64_C(1000000));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(subnormals),
        cmocka_unit_test(deadlines),
        cmocka_unit_test(messages_have_no_control_characters),
        cmocka_unit_test(f16_round_trips_every_value),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(utf8_accepts_and_rejects),
        cmocka_unit_test(numbers_are_parsed_strictly),
        cmocka_unit_test(buffer_stops_at_its_maximum),
        cmocka_unit_test(aligned_addresses_have_different_hashes),
        cmocka_unit_test(dict_finds_what_was_put),
        cmocka_unit_test(output_file_appears_only_when_complete),
        cmocka_unit_test(private_files),
        cmocka_unit_test(maps_that_change),
        cmocka_unit_test(full_disks),
        cmocka_unit_test(pool_runs_all_items_and_barriers),
        cmocka_unit_test(type_table_is_consistent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
