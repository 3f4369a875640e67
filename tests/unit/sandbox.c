/* What a process in the sandbox can no longer do, each in a process of its own. */
#define _GNU_SOURCE
#include "base/sandbox.h"
#include "base/mem.h"

#include "folder.h"
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char inside[sizeof FOLDER], outside[sizeof FOLDER];

static bool can_make(const char *folder)
{
    char path[100];
    snprintf(path, sizeof path, "%s/file", folder);
    const int fd = open(path, O_CREAT | O_WRONLY, 0600);
    const bool ok = fd >= 0 && write(fd, "x", 1) == 1;
    if (fd >= 0) close(fd);
    return ok && !unlink(path);
}

static bool can_overwrite(const char *folder)
{
    char path[100];
    snprintf(path, sizeof path, "%s/there", folder);
    const int fd = open(path, O_WRONLY | O_TRUNC);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static bool can_read(void)
{
    char path[100];
    snprintf(path, sizeof path, "%s/there", outside);
    const int fd = open(path, O_RDONLY);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static bool can_run(void)
{
    const pid_t child = fork();
    if (!child) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(99);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) != 99;
}

/* To a socket of our own, which was made before. */
static int listener;
static struct sockaddr_in address;

static bool can_connect(void)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const bool ok = !connect(fd, (struct sockaddr *)&address, sizeof address);
    close(fd);
    return ok;
}

static bool can_listen(void)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET};
    const bool ok = !bind(fd, (struct sockaddr *)&a, sizeof a) && !listen(fd, 1);
    close(fd);
    return ok;
}

static void *in_thread(void *out)
{
    *(bool *)out = can_make(outside) || can_run();
    return NULL;
}

/* 0: as it should be, else which line is not. */
static int enter_and_try(bool connects)
{
    const char *const folder[] = {inside, NULL, "/nowhere/at/all"};
    const ft_sandbox s = {folder, 3, connects};
    ft_sandboxed got;
    ft_err err;
    pthread_t t;
    bool freed = false;
    if (ft_sandbox_enter(&s, &got, &err)) return 1;
    if (!can_make(inside) || !can_overwrite(inside)) return 2;
    if (can_make(outside) == got.files) return 3;
    if (can_overwrite(outside) == got.files) return 4;
    if (!can_read()) return 5;
    if (can_run() == (got.files || got.calls)) return 6;
    if (can_connect() == got.network) return 7;
    if (!can_listen()) return 8;
    if (open("/dev/null", O_WRONLY) < 0) return 9;
    if (pthread_create(&t, NULL, in_thread, &freed) || pthread_join(t, NULL)) return 10;
    if (got.files && freed) return 11;
    if (got.calls && (syscall(SYS_unshare, 0) != -1 || errno != EPERM)) return 12;
    return got.network && connects ? 13 : 0;
}

static void run_in_child(bool connects)
{
    const pid_t child = fork();
    if (!child) _exit(enter_and_try(connects));
    int status;
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status)) fail_msg("step %d", WEXITSTATUS(status));
}

static void rights_are_given_up(void **state)
{
    (void)state;
    socklen_t n = sizeof address;
    folder_new(inside);
    folder_new(outside);
    for (int i = 0; i < 2; i++) {
        char path[100];
        snprintf(path, sizeof path, "%s/there", i ? outside : inside);
        close(open(path, O_CREAT | O_WRONLY, 0600));
    }
    listener = socket(AF_INET, SOCK_STREAM, 0);
    address = (struct sockaddr_in){.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &n), 0);
    run_in_child(false);
    run_in_child(true);
    assert_true(can_make(outside) && can_run() && can_connect()); /* here nothing has changed */
    close(listener);
    assert_int_equal(folder_free(inside), 0);
    assert_int_equal(folder_free(outside), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rights_are_given_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
